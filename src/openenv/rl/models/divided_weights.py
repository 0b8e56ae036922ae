"""Weights of which each process of a trainer holds a part, as whole tensors and back."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torch.distributed.fsdp import FSDPModule
from torch.distributed.tensor import DTensor, distribute_tensor


def is_sharded(model: torch.nn.Module) -> bool:
    """Whether this process holds a part of the model's weights."""
    return isinstance(model, FSDPModule)


def whole(value: Any) -> Any:
    """A tensor that the processes hold parts of, as one; anything else as it is. All processes call it together."""
    return value.full_tensor() if isinstance(value, DTensor) else value


def trained_weights(model: torch.nn.Module, *, kept: bool = True) -> dict[str, Tensor]:
    """A copy of the trained weights by their names. All processes call it together.

    kept: whether this process needs it. One that does not has each of them for a moment, and returns none.
    """
    weights: dict[str, Tensor] = {}
    for name, own in model.named_parameters():
        if own.requires_grad:
            gathered = whole(own.detach()) if isinstance(own, DTensor) else own.detach().clone()
            if kept:
                weights[name] = gathered
    return weights


def saved_parts(model: torch.nn.Module, *, of_adapter: bool) -> dict[str, Any]:
    """What is saved of a model, by its names: weights and buffers, tied ones once. of_adapter: its adapter's alone."""
    all_names = dict(model.named_parameters(remove_duplicate=False))
    once = dict(model.named_parameters())
    return {
        name: part
        for name, part in model.state_dict().items()
        if (once[name].requires_grad or not of_adapter if name in once else name not in all_names)
    }


def gathered(parts: Mapping[str, Any], *, kept: bool) -> dict[str, Any]:
    """Tensors that the processes hold parts of, whole in the processor's memory. One at a time; all call it together.

    kept: as in `trained_weights`.
    """
    tensors: dict[str, Any] = {}
    for name, part in parts.items():
        value = whole(part)
        if kept:
            tensors[name] = value.cpu()
    return tensors


@torch.no_grad()
def load_weights(model: torch.nn.Module, saved: Mapping[str, Tensor]) -> None:
    """Load whole weights by their names into a model, of which this process may hold a part.

    Raises KeyError for a name that the model does not have.
    """
    own = dict(model.named_parameters())
    for name, weights in saved.items():
        own[name].copy_(like(own[name], weights))


def like(own: Any, value: Tensor) -> Any:
    """A whole tensor, divided as `own` is."""
    if not isinstance(own, DTensor):
        return value
    # every process has the tensor, so none sends its part
    return distribute_tensor(value.to(own.device), own.device_mesh, own.placements, src_data_rank=None)
