"""The language model: a tiny Qwen3 made here, or one that transformers loads; and its log-probabilities."""

from pathlib import Path
from typing import Any, cast

import torch
from torch import Tensor
from transformers import AutoModelForCausalLM, AutoTokenizer, PreTrainedModel, Qwen3Config, Qwen3ForCausalLM

from openenv.rl.config import ModelConfig, Precision

_HEAD_DIM = 32
_ATTENTION = "eager"  # in bfloat16 on a CPU its backward pass is several times faster than that of sdpa


def tiny_model(config: ModelConfig, tokenizer: Any, *, max_length: int, seed: int) -> PreTrainedModel:
    """A Qwen3 model with fresh weights for the tokenizer's words. Equal seeds give equal weights."""
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
    """Model (weights in float32) and tokenizer from a folder or hub id. Raises OSError when there are none."""
    tokenizer = AutoTokenizer.from_pretrained(path)
    model = AutoModelForCausalLM.from_pretrained(path, dtype=torch.float32, attn_implementation=_ATTENTION)
    return model, tokenizer


def autocast(precision: Precision, device: torch.device) -> torch.autocast:
    """The context in which every forward pass runs, so that generator, trainer and reference compute alike."""
    is_bfloat16 = precision == "bfloat16" or (precision == "auto" and _multiplies_bfloat16(device))
    return torch.autocast(device.type, torch.bfloat16, enabled=is_bfloat16)


def _multiplies_bfloat16(device: torch.device) -> bool:
    return device.type != "cpu" or torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported()


def next_token_logits(model: PreTrainedModel, input_ids: Tensor, rows: Tensor, columns: Tensor) -> Tensor:
    """Logits of the token after each position (rows[i], columns[i]), in float32.

    input_ids: [U, L], padded on the right. Padding needs no mask: attention is causal and no position after the padding
    is asked for. Returns [P, vocabulary].
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
    """The number of rows to run, at most a sixteenth more than `wanted`, so that few different shapes occur.

    The matrix library compiles a kernel for each new shape and keeps it: with a new number of rows in every batch it
    spends a tenth of the time on that, and gigabytes of memory.
    """
    step = max(1, 1 << max(0, wanted.bit_length() - 5))
    return -(-wanted // step) * step


def padded(rows: list[tuple[int, ...]], pad_id: int) -> Tensor:
    """Rows of ids as one tensor [U, L], filled up on the right."""
    width = max(map(len, rows))
    return torch.tensor([row + (pad_id,) * (width - len(row)) for row in rows])
