"""Decoding on a GPU: the next token of a fixed number of rows, captured once as a CUDA graph and replayed.

Launched kernel by kernel, a pass for one token of each row takes as long as the processor needs to launch it: 24 ms
with 1.5 billion weights on an H100, whose memory needs 1 ms. A graph needs places that do not move, so keys and values
have storage that all graphs share: `width` places for what each row has read and written, aligned to the right, then
`STAGE` places for new tokens. Longer replies go on in a wider graph.
"""

import math
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, cast

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel
from transformers.cache_utils import DynamicLayer

from openenv.rl.config import Precision
from openenv.rl.models.language_model import accepts, autocast, kept_logits
from openenv.rl.models.shared_prefix import can_share

STAGE = 64
"""New tokens of one graph."""
_MOST_GRAPHS = 24
_LEAST_ROWS = 8
_EXPERTS = ("num_experts", "num_local_experts", "n_routed_experts")


class _Places(DynamicLayer):  # type: ignore[no-untyped-call]
    """The keys and values of a layer in fixed places, [rows, heads, places, size]."""

    keys: Tensor
    values: Tensor
    here: Tensor
    """1 at the place of the current token, else 0, [STAGE, 1]."""

    def __init__(self, keys: Tensor, values: Tensor) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.keys, self.values = keys, values
        self.dtype, self.device, self.is_initialized = keys.dtype, keys.device, True

    def update(self, key_states: Tensor, value_states: Tensor, *_: Any, **__: Any) -> tuple[Tensor, Tensor]:
        """Add the current token at its place, which is 0 until then: a fixed order of sums has no faster copy."""
        self.keys[:, :, -STAGE:].addcmul_(self.here, key_states)
        self.values[:, :, -STAGE:].addcmul_(self.here, value_states)
        return self.keys, self.values


class StaticDecoder:
    """The next token of each row, up to `num_new` times after `begin`."""

    def __init__(
        self, model: PreTrainedModel, precision: Precision, rows: int, width: int, layers: Sequence[_Places]
    ) -> None:
        self.width = width
        self.num_new = STAGE
        """Calls after `begin`."""
        self._model = model
        self._precision = precision
        device = model.device
        self.cache: Any = DynamicCache(config=model.config)
        self.cache.layers = list(layers)
        self.tokens = torch.zeros(rows, 1, dtype=torch.long, device=device)
        """The last token of each row, which the next call reads."""
        self._positions = torch.zeros_like(self.tokens)
        self._seen = torch.zeros(rows, 1, 1, width + STAGE, dtype=torch.bool, device=device)
        self._step = torch.zeros(1, dtype=torch.long, device=device)
        self._new = torch.arange(STAGE, device=device)
        self._run: Callable[[], Tensor] = self._forward

    @property
    def mask(self) -> Tensor:
        """The places that have been read or written, [rows, width + STAGE]."""
        return self._seen[:, 0, 0]

    def capture(self, pool: Any) -> None:
        """Capture the pass as a CUDA graph. pool: of the memory of all graphs."""
        stream = cast(Any, torch.cuda.Stream)(self._model.device)
        stream.wait_stream(torch.cuda.current_stream(self._model.device))
        with torch.cuda.stream(stream):
            for _ in range(2):  # libraries choose their kernels and take their workspace
                self._forward()
        torch.cuda.current_stream(self._model.device).wait_stream(stream)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, capture_error_mode="thread_local"):  # a trainer goes on beside it
            logits = self._forward()

        def replay() -> Tensor:
            graph.replay()
            return logits

        self._run = replay

    def begin(self, read: Sequence[tuple[Tensor, Tensor]], seen: Tensor, tokens: Tensor) -> None:
        """Go on from what was read.

        Args:
            read: the keys and values of each layer, [R, heads, length, size], with at most `width` places.
            seen: the places that are not padding, [R, length].
            tokens: the next token of each row, [R].
        """
        used, start = len(seen), self.width - seen.shape[1]
        for own, earlier in zip(self.cache.layers, read, strict=True):
            for places, before in zip((own.keys, own.values), earlier, strict=True):
                places.zero_()
                places[:used, :, start : self.width] = before
        self._seen.zero_()
        self._seen[:used, 0, 0, start : self.width] = seen.bool()
        self._positions.zero_()
        self._positions[:used, 0] = seen.sum(dim=1)
        self.tokens[:used, 0] = tokens
        self._step.zero_()

    def __call__(self) -> Tensor:
        """Read the tokens. Returns the logits of the next ones, [rows, vocabulary], until the next call."""
        return self._run()

    def _forward(self) -> Tensor:
        here = self._new == self._step
        self._seen[..., self.width :].logical_or_(here)
        for layer in self.cache.layers:
            layer.here = here[:, None].to(layer.dtype)
        inputs: dict[str, Any] = {
            "input_ids": self.tokens,
            "position_ids": self._positions,
            "attention_mask": self._seen,
            "past_key_values": self.cache,
            "use_cache": True,
        }
        with autocast(self._precision, self._model.device, keeps_casts=False):  # weights change between replays
            logits = kept_logits(self._model, 1, **inputs)[:, -1].float()
        self._step += 1
        self._positions += 1
        return logits


class StaticDecoders:
    """The decoders of a model, made when they are first needed. One is used at a time: they share their storage."""

    def __init__(self, model: PreTrainedModel, precision: Precision) -> None:
        self._model = model
        self._precision: Precision = precision
        self._known: OrderedDict[tuple[int, int], StaticDecoder] = OrderedDict()
        self._storage: list[tuple[Tensor, Tensor]] = []
        """Of each layer: the numbers of keys and of values."""
        self._pool: Any = None

    def begun(self, cache: Any, rows: Tensor, mask: Tensor, tokens: Tensor) -> StaticDecoder:
        """A decoder that goes on from a cache, which may be that of the decoder before.

        Args:
            cache: of what was read.
            rows: of the cache, one for each row of the decoder that is used, [R].
            mask: the places of the cache that are not padding, [rows of the cache, length].
            tokens: the next token of each, [R].
        """
        read = [(layer.keys.index_select(0, rows), layer.values.index_select(0, rows)) for layer in cache.layers]
        shape = _rows_for(len(rows)), -(-mask.shape[1] // STAGE) * STAGE
        if shape not in self._known:
            self._known[shape] = self._made(shape, read)
        self._known.move_to_end(shape)
        decoder = self._known[shape]
        decoder.begin(read, mask.index_select(0, rows), tokens)
        return decoder

    def _made(self, shape: tuple[int, int], read: Sequence[tuple[Tensor, Tensor]]) -> StaticDecoder:
        count, width = shape
        shapes = [[(count, part.shape[1], width + STAGE, part.shape[3]) for part in layer] for layer in read]
        sizes = [[math.prod(places) for places in layer] for layer in shapes]
        if not self._storage or any(have.numel() < size for have, size in zip(self._storage[0], sizes[0], strict=True)):
            self._known.clear()
            self._storage = [
                (keys.new_empty(of_keys), values.new_empty(of_values))
                for (keys, values), (of_keys, of_values) in zip(read, sizes, strict=True)
            ]
        elif len(self._known) == _MOST_GRAPHS:
            self._known.popitem(last=False)
        layers = []
        for storage, of_layer, needed in zip(self._storage, shapes, sizes, strict=True):
            keys, values = (
                have[:size].view(places) for have, places, size in zip(storage, of_layer, needed, strict=True)
            )
            layers.append(_Places(keys, values))
        decoder = StaticDecoder(self._model, self._precision, count, width, layers)
        if self._model.device.type == "cuda":
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            decoder.capture(self._pool)
        return decoder


def can_decode(model: PreTrainedModel) -> bool:
    """Whether passes of the model may be captured: attention to all places that are left to PyTorch, and no experts,
    whose choice the processor reads."""
    config = model.config.get_text_config()
    has_experts = any(getattr(config, name, None) for name in _EXPERTS)
    is_plain = can_share(model) and accepts(model, "position_ids") and accepts(model, "past_key_values")
    return is_plain and not has_experts and model.config._attn_implementation == "sdpa"


def storage_bytes(model: PreTrainedModel, rows: int, length: int) -> int:
    """Bytes of the storage for as many rows of at most `length` tokens, and of what they go on from; 0 if passes of the
    model are not captured."""
    if model.device.type != "cuda" or not can_decode(model):
        return 0
    shape = model.config.get_text_config()
    size = getattr(shape, "head_dim", None) or shape.hidden_size // shape.num_attention_heads
    heads = getattr(shape, "num_key_value_heads", None) or shape.num_attention_heads
    of_token = 2 * shape.num_hidden_layers * heads * size * 2  # keys and values in bfloat16
    width = -(-length // STAGE) * STAGE + STAGE
    return int(of_token * (_rows_for(rows) * width + rows * length))


def _rows_for(count: int) -> int:
    """The next of 8, 12, 16, 24, 32, 48, ... rows, so that few graphs are captured."""
    power = max(_LEAST_ROWS, 1 << (count - 1).bit_length())
    return power * 3 // 4 if count <= power * 3 // 4 and power > _LEAST_ROWS else power
