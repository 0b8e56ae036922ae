"""The memory that a loaded model needs, from its configuration alone: no weights are read and nothing is computed.

The model is made of fake tensors, which have shapes and types, and its own code runs on them. The bytes alive at a time
are counted, so that every architecture, precision and kind of attention is covered without a formula of its own.
"""

import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves
from transformers import AutoConfig, AutoModelForCausalLM, AutoModelForImageTextToText, PreTrainedModel

from openenv.rl.config import ConfigError, ModelConfig, Precision
from openenv.rl.generators.drawing import drawn
from openenv.rl.generators.static_decoder import storage_bytes
from openenv.rl.models.devices import attention_of, autocast
from openenv.rl.models.images import ARCHITECTURES
from openenv.rl.models.language_model import (
    cast_matrices,
    checkpoint_activations,
    kept_logits,
    row_count,
    without_dropout,
)
from openenv.rl.models.lora import add_adapter
from openenv.rl.models.output_layer import compute_output_in_float32
from openenv.rl.models.shared_prefix import can_share, prefix_cache
from openenv.rl.models.sources.gguf_file import gguf_source


class ModelOutline:
    """A model without weights, as a run would load it, that measures its passes."""

    def __init__(self, config: ModelConfig, device: torch.device, *, samples: bool = False) -> None:
        """samples: whether it is the generator's. Raises ConfigError for a `model.path` without a configuration."""
        self._precision: Precision = config.precision
        self._device = device
        self._mode = FakeTensorMode()
        self._model = _on_meta(config, device)
        if config.gradient_checkpointing and not samples:
            checkpoint_activations(self._model)
        without_dropout(self._model)
        with self._mode:
            _replace_tensors(self._model, device)
            if samples:
                cast_matrices(self._model, config.precision)

    @property
    def num_weights(self) -> int:
        """Number of weights, those of an adapter included."""
        return sum(weights.numel() for weights in self._model.parameters())

    @property
    def weight_bytes(self) -> int:
        """Bytes of all weights."""
        return sum(weights.nbytes for weights in self._model.parameters())

    @property
    def trained_bytes(self) -> int:
        """Bytes of the weights that are trained: all, or those of the adapter."""
        return sum(weights.nbytes for weights in self._model.parameters() if weights.requires_grad)

    def training_bytes(self, rows: int, length: int, *, shared: int, columns: int, positions: int) -> int:
        """Most bytes alive in a forward and backward pass, without weights and their gradients.

        Args:
            rows: sequences.
            length: tokens of each.
            shared: tokens that all begin with.
            columns: different places of sampled tokens, whose logits are computed for all rows.
            positions: sampled tokens of all rows.
        """
        with self._mode, _counted(self._model) as live:
            cache, ids = self._begun(row_count(rows), length, shared)
            keep = torch.arange(min(columns, ids.shape[1]), device=self._device)
            with autocast(self._precision, self._device):
                logits = kept_logits(self._model, keep, input_ids=ids, **cache)
            chosen = logits.flatten(0, 1)[:positions].float()
            scores = torch.log_softmax(_limited(chosen), dim=-1)
            del logits, chosen
            entropy = -(scores.clamp(min=torch.finfo(scores.dtype).min).exp() * scores).sum(dim=-1)
            torch.autograd.backward(scores[:, 0].sum() + entropy.sum())
            most = live.most - sum(w.grad.nbytes for w in self._model.parameters() if w.grad is not None)
            self._model.zero_grad(set_to_none=True)
        return most

    @torch.no_grad()
    def sampling_bytes(self, contexts: int, length: int, *, shared: int) -> int:
        """Most bytes alive while the next token of as many prompts is sampled, with their keys and values."""
        with self._mode, _counted(self._model) as live:
            cache, ids = self._begun(row_count(contexts), length, shared, keeps=True)
            with autocast(self._precision, self._device):
                logits = kept_logits(self._model, 1, input_ids=ids, **cache)[:, -1].float()
            logprobs = torch.log_softmax(_limited(logits), dim=-1)
            rows = torch.arange(contexts, device=self._device)
            drawn(torch.softmax(logprobs.double(), dim=-1), rows, torch.zeros(contexts, device=self._device).double())
        return live.most + storage_bytes(self._model, self._precision, contexts, length)

    def _begun(self, rows: int, length: int, shared: int, *, keeps: bool = False) -> tuple[dict[str, Any], Tensor]:
        """The cache of what all sequences begin with, as an argument of the model, and the ids that are left."""
        if shared and can_share(self._model):
            with autocast(self._precision, self._device):
                begun = prefix_cache(self._model, self._ids(1, shared), rows)
            return {"past_key_values": begun, "use_cache": True}, self._ids(rows, length - shared)
        return {"use_cache": keeps}, self._ids(rows, length)

    def _ids(self, rows: int, length: int) -> Tensor:
        return torch.zeros(rows, length, dtype=torch.long, device=self._device)


def _limited(logits: Tensor) -> Tensor:
    """The logits as the mask of a constrained reply leaves them."""
    return logits.masked_fill(torch.zeros(logits.shape, dtype=torch.bool, device=logits.device), -torch.inf)


def _on_meta(config: ModelConfig, device: torch.device) -> PreTrainedModel:
    source, options = gguf_source(config.path)
    try:
        architecture: Any = AutoConfig.from_pretrained(source, **options)
    except (OSError, ValueError) as error:
        reason = str(error).partition("\n")[0]
        rule = "give a folder with config.json, a GGUF file, or the id of a model on the hub that can be reached."
        raise ConfigError(f"model.path={config.path!r}: {reason} {rule}") from error
    kind: Any = AutoModelForImageTextToText if architecture.model_type in ARCHITECTURES else AutoModelForCausalLM
    with torch.device("meta"):
        model = kind.from_config(
            architecture, dtype=getattr(torch, config.weights), attn_implementation=attention_of(device)
        )
        if config.lora:
            add_adapter(model, config.lora, config.path)
    if config.float32_output:
        compute_output_in_float32(model)
    return cast(PreTrainedModel, model)


def _replace_tensors(model: nn.Module, device: torch.device) -> None:
    """Put fake tensors on the device in the place of those on meta. Tied weights stay tied."""
    known: dict[int, Any] = {}
    for module in model.modules():
        for name, weights in module._parameters.items():
            if weights is not None and id(weights) not in known:
                empty = torch.empty(weights.shape, dtype=weights.dtype, device=device)
                known[id(weights)] = nn.Parameter(empty, requires_grad=weights.requires_grad)
            module._parameters[name] = None if weights is None else known[id(weights)]
        for name, buffer in module._buffers.items():
            if buffer is not None:
                module._buffers[name] = torch.empty(buffer.shape, dtype=buffer.dtype, device=device)


class _Live(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Counts the bytes of the tensors that were made inside it and are still referenced."""

    def __init__(self, model: nn.Module) -> None:
        """model: its weights were there before, and are in no count."""
        super().__init__()  # type: ignore[no-untyped-call]
        self.most = 0
        """Most bytes at a time."""
        self._now = 0
        earlier = (*model.parameters(), *model.buffers())
        self._known = {cast(Any, tensor.untyped_storage())._cdata for tensor in earlier}

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        result = func(*args, **(kwargs or {}))
        for tensor in tree_leaves(result):
            if isinstance(tensor, Tensor):
                self._add(tensor.untyped_storage())
        return result

    def _add(self, storage: Any) -> None:
        key, size = storage._cdata, storage.nbytes()
        if key not in self._known:
            self._known.add(key)
            self._now += size
            self.most = max(self.most, self._now)
            weakref.finalize(storage, self._remove, key, size)

    def _remove(self, key: int, size: int) -> None:
        self._known.discard(key)
        self._now -= size


@contextmanager
def _counted(model: nn.Module) -> Iterator[_Live]:
    with _Live(model) as live:
        yield live
