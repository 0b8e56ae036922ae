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
from openenv.rl.models.devices import autocast, multiplies_bfloat16
from openenv.rl.models.language_model import accepts, kept_logits
from openenv.rl.models.shared_prefix import can_share

STAGE = 64
"""New tokens of one graph."""
_MOST_GRAPHS = 64
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

    def __init__(self, model: PreTrainedModel, precision: Precision, layers: Sequence[_Places], logits: Tensor) -> None:
        """layers, logits: the storage of keys and values, and of the logits, [rows, vocabulary]."""
        rows, width = len(logits), layers[0].keys.shape[2] - STAGE
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
        self._logits = logits
        self._run: Callable[[], object] = self._forward

    @property
    def mask(self) -> Tensor:
        """The places that have been read or written, [rows, width + STAGE]."""
        return self._seen[:, 0, 0]

    def capture(self, pool: Any, stream: Any) -> None:
        """Capture the pass as a CUDA graph. pool: of the memory of all graphs. stream: on which all are captured."""
        earlier = torch.cuda.current_stream(self._model.device)
        stream.wait_stream(earlier)
        with torch.cuda.stream(stream):
            for _ in range(2):  # libraries choose their kernels and take their workspace
                self._forward()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph, pool=pool, stream=stream, capture_error_mode="thread_local"):  # trainers go on
            self._forward()
        earlier.wait_stream(stream)
        self._run = graph.replay

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
        """Read the tokens. Returns the logits of the next ones, [rows, vocabulary] in float32, until the next call."""
        self._run()
        return self._logits

    def _forward(self) -> None:
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
            self._logits.copy_(kept_logits(self._model, 1, **inputs)[:, -1])
        self._step += 1
        self._positions += 1


class StaticDecoders:
    """The decoders of a model, made when they are first needed. One is used at a time: they share their storage."""

    def __init__(self, model: PreTrainedModel, precision: Precision) -> None:
        self._model = model
        self._precision: Precision = precision
        self._known: OrderedDict[tuple[int, int], StaticDecoder] = OrderedDict()
        self._storage: list[tuple[Tensor, Tensor]] = []
        """Of each layer: the numbers of keys and of values."""
        self._logits = torch.empty(0)
        self._pool: Any = None
        self._stream: Any = None

    def begun(self, cache: Any, rows: Tensor, mask: Tensor, tokens: Tensor, room: int) -> StaticDecoder:
        """A decoder that goes on from a cache, which may be that of the decoder before.

        Args:
            cache: of what was read.
            rows: of the cache, one for each row of the decoder that is used, [R].
            mask: the places of the cache that are not padding, [rows of the cache, length].
            tokens: the next token of each, [R].
            room: most tokens that follow, in this decoder and later ones.
        """
        read = [(layer.keys.index_select(0, rows), layer.values.index_select(0, rows)) for layer in cache.layers]
        shape = count, width = _rows_for(len(rows)), _stages(mask.shape[1]) * STAGE
        if shape not in self._known:
            self._make_room(count, width + _stages(room) * STAGE, read)
            self._known[shape] = self._made(count, width, read)
        self._known.move_to_end(shape)
        decoder = self._known[shape]
        decoder.begin(read, mask.index_select(0, rows), tokens)
        return decoder

    def _make_room(self, count: int, length: int, read: Sequence[tuple[Tensor, Tensor]]) -> None:
        """Have storage for `count` rows of `length` places. Where it grows, what was captured in it is forgotten."""
        vocab_size = self._model.config.get_text_config().vocab_size
        needed = [count * length * part.shape[1] * part.shape[3] for layer in read for part in layer]
        needed.append(count * vocab_size)
        have = [part.numel() for layer in self._storage for part in layer] or [0] * (len(needed) - 1)
        have.append(self._logits.numel())
        if all(size <= known for size, known in zip(needed, have, strict=True)):
            if len(self._known) == _MOST_GRAPHS:
                self._known.popitem(last=False)
            return
        self._known.clear()
        self._pool, self._storage, self._logits = None, [], torch.empty(0)  # freed before what takes their place
        *of_layers, of_logits = map(max, needed, have)
        sizes = iter(of_layers)
        self._storage = [(keys.new_empty(next(sizes)), values.new_empty(next(sizes))) for keys, values in read]
        self._logits = torch.empty(of_logits, device=self._model.device)

    def _made(self, count: int, width: int, read: Sequence[tuple[Tensor, Tensor]]) -> StaticDecoder:
        layers = []
        for storage, of_layer in zip(self._storage, read, strict=True):
            shapes = [(count, part.shape[1], width + STAGE, part.shape[3]) for part in of_layer]
            keys, values = (have[: math.prod(shape)].view(shape) for have, shape in zip(storage, shapes, strict=True))
            layers.append(_Places(keys, values))
        vocab_size = self._model.config.get_text_config().vocab_size
        logits = self._logits[: count * vocab_size].view(count, vocab_size)
        decoder = StaticDecoder(self._model, self._precision, layers, logits)
        if self._model.device.type == "cuda":
            self._pool = self._pool or torch.cuda.graph_pool_handle()
            self._stream = self._stream or cast(Any, torch.cuda.Stream)(self._model.device)
            decoder.capture(self._pool, self._stream)
        return decoder


def can_decode(model: PreTrainedModel) -> bool:
    """Whether passes of the model may be captured: attention to all places that are left to PyTorch, and no experts,
    whose choice the processor reads."""
    config = model.config.get_text_config()
    has_experts = any(getattr(config, name, None) for name in _EXPERTS)
    is_plain = can_share(model) and accepts(model, "position_ids") and accepts(model, "past_key_values")
    return is_plain and not has_experts and model.config._attn_implementation == "sdpa"


def storage_bytes(model: PreTrainedModel, precision: Precision, rows: int, length: int) -> int:
    """Bytes of the storage for as many rows of at most `length` tokens, and of what they go on from; 0 if passes of the
    model are not captured."""
    if model.device.type != "cuda" or not can_decode(model):
        return 0
    shape = model.config.get_text_config()
    size = getattr(shape, "head_dim", None) or shape.hidden_size // shape.num_attention_heads
    heads = getattr(shape, "num_key_value_heads", None) or shape.num_attention_heads
    is_half = multiplies_bfloat16(precision, model.device) or model.dtype == torch.bfloat16
    of_token = 2 * shape.num_hidden_layers * heads * size * (2 if is_half else 4)  # keys and values
    count = _rows_for(rows)
    places = of_token * (count * (_stages(length) + 1) * STAGE + rows * length)
    return int(places + 4 * count * shape.vocab_size)


def _stages(length: int) -> int:
    return -(-length // STAGE)


def _rows_for(count: int) -> int:
    """The next of 8, 12, 16, 24, 32, 48, ... rows, so that few graphs are captured."""
    power = max(_LEAST_ROWS, 1 << (count - 1).bit_length())
    return power * 3 // 4 if count <= power * 3 // 4 and power > _LEAST_ROWS else power
