"""The language model: a tiny Qwen3 or one that transformers loads, its logits, and the store of its weights."""

import logging
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from openenv.rl.config import ModelConfig, Precision

log = logging.getLogger(__name__)

_HEAD_DIM = 32
_ATTENTION = "eager"  # in bfloat16 on a CPU its backward pass is several times faster than that of sdpa


def tiny_model(config: ModelConfig, tokenizer: Any, *, max_length: int, seed: int) -> PreTrainedModel:
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
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(seed)
        model: PreTrainedModel = cast(Any, Qwen3ForCausalLM)._from_config(architecture, attn_implementation=_ATTENTION)
    in_full: PreTrainedModel = cast(Any, model).float()
    return in_full


def load_model(path: str | Path) -> tuple[PreTrainedModel, Any]:
    """Load a model (float32 weights) and its tokenizer from a folder or hub id. Raises OSError if there is none."""
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation=_ATTENTION)
    return model, tokenizer


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """The autocast context of every forward pass: generator, trainer and reference compute with the same precision."""
    is_bfloat16 = precision == "bfloat16" or (precision == "auto" and _multiplies_bfloat16(device))
    return torch.autocast(device.type, torch.bfloat16, enabled=is_bfloat16)


def _multiplies_bfloat16(device: torch.device) -> bool:
    return device.type != "cpu" or torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def next_token_logits(model: PreTrainedModel, input_ids: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Logits of the token after each position (rows[i], columns[i]), in float32.

    input_ids: [U, L], padded on the right. Padding needs no mask: attention is causal, and no requested position
    follows padding. Returns [P, vocabulary].
    """
    gap = row_count(len(input_ids)) - len(input_ids)
    input_ids = torch.cat([input_ids, input_ids[:1].expand(gap, -1)])
    hidden = model.base_model(input_ids=input_ids, use_cache=False).last_hidden_state
    return output_logits(model, hidden[rows, columns]).float()


def output_logits(model: PreTrainedModel, hidden: Tensor) -> Tensor:
    """Logits of the next token for hidden states of the last layer. hidden: [..., width]. Returns [..., vocabulary]."""
    head: Tensor = cast(Any, model).get_output_embeddings()(hidden)
    return head


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


class WeightStore:
    """Passes weights from the trainer to generators in other threads, with their policy version.

    Readers load the newest weights, or those of the version that is pinned. A reader never receives half-written ones.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._weights: dict[int, Mapping[str, Tensor]] = {}
        """By version; without a pinned version only the newest."""
        self._version = -1
        self._pinned: int | None = None

    @property
    def version(self) -> int:
        """The policy version that was published last; -1 before the first."""
        return self._version

    def publish(self, model: torch.nn.Module, version: int) -> None:
        """Publish a copy of the model's weights. Raises ValueError if the version is not newer than the last."""
        if version <= self._version:
            raise ValueError(f"version={version}: {self._version} is already published, and versions must increase.")
        weights = {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}
        with self._lock:
            kept = {} if self._pinned is None else self._weights
            self._weights, self._version = {**kept, version: weights}, version
        log.debug("published weights: version=%d", version)

    def pin(self, version: int) -> None:
        """Let readers load exactly this version until another is pinned. Older ones are forgotten.

        Raises KeyError if it was not published, or was forgotten.
        """
        with self._lock:
            if version not in self._weights:
                raise KeyError(f"version {version} of the weights: there is {', '.join(map(str, self._weights))}")
            self._weights = {known: weights for known, weights in self._weights.items() if known >= version}
            self._pinned = version

    def load_newer(self, model: torch.nn.Module, than: int) -> int:
        """Load the weights for readers into `model` if they are newer than version `than`. Returns its version."""
        with self._lock:
            version = self._version if self._pinned is None else self._pinned
            weights = self._weights.get(version, {})
        if version > than:
            model.load_state_dict(weights)
        return max(version, than)
