"""The language model: a tiny Qwen3 or one that transformers loads, and its own logits."""

import copy
import inspect
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from transformers import (
    AutoConfig,
    AutoModelForCausalLM,
    AutoModelForImageTextToText,
    PreTrainedModel,
    Qwen3Config,
    Qwen3ForCausalLM,
)
from transformers.modeling_layers import GradientCheckpointingLayer
from transformers.utils import logging as transformers_logging

from openenv.rl.config import ModelConfig, Precision, WeightType
from openenv.rl.models.chat import load_tokenizer
from openenv.rl.models.devices import attention_of, moved, multiplies_bfloat16
from openenv.rl.models.images import ARCHITECTURES, Images, image_inputs, without_image_token
from openenv.rl.models.shared_prefix import can_share, prefix_cache, shared_length
from openenv.rl.models.sources.gguf_file import is_gguf, load_gguf

log = logging.getLogger(__name__)

_HEAD_DIM = 32
PROCESSOR = torch.device("cpu")
_ALIGNMENT = 64  # bytes, of the memory that PyTorch allocates
_INSIDE = 0.999  # a weight on the border itself might round to the neighbour


def tiny_model(
    config: ModelConfig, tokenizer: Any, *, max_length: int, seed: int, device: torch.device = PROCESSOR
) -> PreTrainedModel:
    """Create a Qwen3 model with random weights for the tokenizer's vocabulary. Equal seeds give equal weights."""
    architecture = Qwen3Config(
        vocab_size=len(tokenizer),
        hidden_size=config.hidden_size,
        intermediate_size=config.intermediate_size,
        num_hidden_layers=config.num_layers,
        num_attention_heads=config.num_heads,
        num_key_value_heads=config.num_heads // 2,
        head_dim=_HEAD_DIM,
        max_position_embeddings=max_length,
        tie_word_embeddings=True,
        initializer_range=config.hidden_size**-0.5,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        bos_token_id=None,
    )
    return random_model(Qwen3ForCausalLM, architecture, seed=seed, device=device)


def random_model(
    model_class: Any, architecture: Any, *, seed: int, device: torch.device = PROCESSOR
) -> PreTrainedModel:
    """A model with random weights in float32. Equal seeds give equal weights."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: Any = model_class._from_config(architecture, attn_implementation=attention_of(device)).float()
    return cast(PreTrainedModel, model.to(device))


@contextmanager
def without_progress_bars() -> Iterator[None]:
    """transformers draws no progress bars inside the `with` statement: they would tear the terminal's view apart."""
    progress_bars: Any = transformers_logging
    was_shown = progress_bars.is_progress_bar_enabled()
    progress_bars.disable_progress_bar()
    try:
        yield
    finally:
        if was_shown:
            progress_bars.enable_progress_bar()


def load_model(
    path: str | Path, *, weights: WeightType = "float32", device: torch.device = PROCESSOR
) -> tuple[PreTrainedModel, Any]:
    """Load a model and its tokenizer from a folder, a GGUF file or a hub id. Raises OSError if there is none."""
    dtype = getattr(torch, weights)
    if is_gguf(path):
        with without_progress_bars():
            read, tokenizer = load_gguf(path, dtype=dtype, attention=attention_of(device))
        return read.to(device), tokenizer
    tokenizer = load_tokenizer(path)
    reads_images = AutoConfig.from_pretrained(path).model_type in ARCHITECTURES
    model_class = AutoModelForImageTextToText if reads_images else AutoModelForCausalLM
    with without_progress_bars():
        model: Any = model_class.from_pretrained(path, dtype=dtype, attn_implementation=attention_of(device))
    _align(model)
    return model.to(device), tokenizer


def _align(model: PreTrainedModel) -> None:
    """Move weights to where new tensors begin. Those of a file lie anywhere in it, and the matrix library adds in
    another order there: the model that a run loads to go on would differ from the one that it has made."""
    for weights in model.parameters():
        if weights.data_ptr() % _ALIGNMENT:
            weights.data = weights.data.clone()


def copy_of(model: PreTrainedModel) -> PreTrainedModel:
    """A copy whose weights follow a `WeightStore`. Frozen weights never change, so both models share them."""
    frozen = {id(weights): weights for weights in model.parameters() if not weights.requires_grad}
    return copy.deepcopy(model, frozen)


def checkpoint_activations(model: PreTrainedModel) -> None:
    """Let the backward pass compute the activations of each layer again instead of keeping them."""
    model.activation_checkpointing_enable()
    for layer in _checkpointed(model):
        for name, value in list(vars(layer).items()):
            if "dropout" in name and isinstance(value, float):
                setattr(layer, name, 0.0)  # these layers are in training mode, see without_dropout


def without_dropout(model: PreTrainedModel) -> None:
    """Turn dropout off, as in generator and reference: ratios compare equal computations.

    Layers that compute their activations again do so in training mode only. That mode is theirs alone, not that of the
    modules in them.
    """
    model.train(False)
    for layer in _checkpointed(model):
        layer.training = True


def _checkpointed(model: PreTrainedModel) -> list[torch.nn.Module]:
    layers = [layer for layer in model.modules() if isinstance(layer, GradientCheckpointingLayer)]
    return [layer for layer in layers if layer.gradient_checkpointing]


def end_ids(model: PreTrainedModel) -> list[int]:
    """The tokens that end a reply by the model's generation config: one, several, or none."""
    ids = model.generation_config.eos_token_id if model.generation_config is not None else None
    return [ids] if isinstance(ids, int) else list(ids or [])


def cast_matrices(model: PreTrainedModel, precision: Precision) -> None:
    """Keep the trained matrices of linear layers in bfloat16, where passes would cast them each time.

    For a model that only samples: results are the same to the bit. Matrices that are frozen, or tied to the embedding,
    are shared with others and stay.
    """
    if not multiplies_bfloat16(precision, model.device):
        return
    others = (module for module in model.modules() if not isinstance(module, torch.nn.Linear))
    shared = {id(weights) for module in others for weights in module.parameters(recurse=False)}
    for layer in model.modules():
        if type(layer) is torch.nn.Linear and layer.weight.requires_grad and id(layer.weight) not in shared:
            layer.weight = torch.nn.Parameter(layer.weight.detach().bfloat16())


@torch.no_grad()
def dither(model: PreTrainedModel, *, seed: int) -> None:
    """Move each trained weight of a matrix to a random place among those that bfloat16 rounds to the same number.

    Matrix products in bfloat16 are unchanged, and so is the model but for rounding. Weights that were stored in
    bfloat16 lie in the middle of such a place, and those of quantized files often on its border: a step that is smaller
    than the place changes nothing at first, or everything at once. From a random place it changes a share of the
    weights that grows with the step.
    """
    for number, weights in enumerate(model.parameters()):
        if weights.requires_grad and weights.dtype == torch.float32 and weights.dim() > 1:
            draws = torch.Generator(device=weights.device).manual_seed((seed << 32) + number)
            rounded = weights.bfloat16()
            bits = rounded.view(torch.int16)
            neighbours = [(bits + step).view(torch.bfloat16).float() for step in (-1, 1)]
            middle = rounded.float()
            gap = torch.minimum(*((neighbour - middle).abs() for neighbour in neighbours))
            gap[(middle == 0) | ~torch.isfinite(gap)] = 0.0
            places = torch.rand(weights.shape, generator=draws, device=weights.device) - 0.5
            weights.copy_(middle + _INSIDE * places * gap)


def next_token_logits(
    model: PreTrainedModel, input_ids: Tensor, rows: Tensor, columns: Tensor, images: Sequence[Images] = ()
) -> Tensor:
    """Logits of the token after each position (rows[i], columns[i]), in float32, from the model's own forward.

    Args:
        input_ids: [U, L], padded on the right. Padding needs no mask: models are causal, and no requested position
            follows padding. These and the positions are on the processor, which looks at them.
        images: of each row; empty if no row has any.

    Returns: [P, vocabulary], on the model's device.
    """
    gap, device = row_count(len(input_ids)) - len(input_ids), model.device
    input_ids = torch.cat([input_ids, input_ids[:1].expand(gap, -1)])
    kept, place = torch.unique(columns, return_inverse=True)
    can_begin = not any(images) and can_share(model)
    shared = shared_length(input_ids.tolist(), int(kept[0]) if len(kept) else 0) if can_begin else 0
    ids, kept, place, rows = (moved(tensor, device) for tensor in (input_ids, kept - shared, place, rows))
    if shared:
        cache = prefix_cache(model, ids[:1, :shared], len(ids))
        inputs = {"input_ids": ids[:, shared:], "past_key_values": cache, "use_cache": True}
        return kept_logits(model, kept, **inputs)[rows, place].float()
    shown = image_inputs(model, ids, [*images, *([images[0]] * gap)])[0] if any(images) else {}
    return kept_logits(model, kept, input_ids=ids, use_cache=False, **shown)[rows, place].float()


def kept_logits(model: PreTrainedModel, keep: int | Tensor, **inputs: Any) -> Tensor:
    """Logits of the model's own forward at some positions, [rows, positions, vocabulary].

    keep: the number of last positions, or the indices of positions. Models whose forward has `logits_to_keep` compute
    the output layer for these positions only. The token of images has no probability: it stands for images alone.
    """
    if accepts(model, "logits_to_keep"):
        return without_image_token(model, model(**inputs, logits_to_keep=keep).logits)
    logits: Tensor = model(**inputs).logits
    return logits[:, -keep:] if isinstance(keep, int) else logits[:, keep]


def accepts(model: PreTrainedModel, name: str) -> bool:
    """Whether the model's forward has a parameter of that name."""
    model_class: Any = type(model)
    return name in _forward_parameters(model_class)


@cache
def _forward_parameters(model_class: Any) -> frozenset[str]:
    return frozenset(inspect.signature(model_class.forward).parameters)


def row_count(wanted: int) -> int:
    """Round a number of rows up by at most a sixteenth, so that few different shapes occur.

    The matrix library compiles and caches a kernel for each new shape. A new number of rows in every batch would cost a
    tenth of the time, and gigabytes of memory.
    """
    step = max(1, 1 << max(0, wanted.bit_length() - 5))
    return -(-wanted // step) * step


def padded(rows: list[tuple[int, ...]], pad_id: int) -> Tensor:
    """Rows of ids as one tensor [U, L], padded on the right."""
    width = max(map(len, rows))
    return torch.tensor([row + (pad_id,) * (width - len(row)) for row in rows])
