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
