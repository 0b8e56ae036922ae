"""The tiny model for environments whose observations have images: a small Qwen2.5-VL, and how it reads images."""

from typing import Any

import torch
from transformers import PreTrainedModel, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from openenv.rl.config import ModelConfig, require
from openenv.rl.models.chat import IMAGE
from openenv.rl.models.images import ImageReader
from openenv.rl.models.language_model import PROCESSOR, random_model

_PATCH_SIZE = 7
_MERGE_SIZE = 2
_TOKEN_SIZE = _PATCH_SIZE * _MERGE_SIZE
"""Pixels of an image token, in each direction."""
_MOST_TOKENS = 64
_DEPTH = 2
"""Layers that read an image, before the layers of the language model."""


def tiny_image_reader() -> ImageReader:
    """Reads images as tokens of 14 x 14 pixels. Sides are rounded to whole tokens, and an image has at most 64."""
    size = {"shortest_edge": _TOKEN_SIZE**2, "longest_edge": _MOST_TOKENS * _TOKEN_SIZE**2}
    processor: Any = Qwen2VLImageProcessorPil
    return ImageReader(
        processor(patch_size=_PATCH_SIZE, merge_size=_MERGE_SIZE, temporal_patch_size=1, size=size), IMAGE
    )


def tiny_vision_model(
    config: ModelConfig, tokenizer: Any, *, max_length: int, seed: int, device: torch.device = PROCESSOR
) -> PreTrainedModel:
    """Create a Qwen2.5-VL model with random weights for the tokenizer's vocabulary. Equal seeds give equal weights.

    Raises ConfigError if the width does not divide into heads of a multiple of four dimensions.
    """
    width, heads = config.hidden_size, config.num_heads
    rule = f"a model of images needs a multiple of 4 * model.num_heads, which is {4 * heads}."
    require(width % (4 * heads) == 0, "model.hidden_size", width, rule)
    pairs = width // heads // 2
    side = 3 * pairs // 8  # rotary pairs of rows, and of columns; the others are for time, as in Qwen2.5-VL
    architecture = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": width,
            "intermediate_size": config.intermediate_size,
            "num_hidden_layers": config.num_layers,
            "num_attention_heads": heads,
            "num_key_value_heads": heads // 2,
            "max_position_embeddings": max_length,
            "initializer_range": width**-0.5,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [pairs - 2 * side, side, side],
            },
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
            "bos_token_id": None,
        },
        vision_config={
            "depth": _DEPTH,
            "hidden_size": width,
            "intermediate_size": 2 * width,
            "num_heads": heads,
            "patch_size": _PATCH_SIZE,
            "temporal_patch_size": 1,
            "spatial_merge_size": _MERGE_SIZE,
            "out_hidden_size": width,
            "fullatt_block_indexes": list(range(_DEPTH)),
            "window_size": _PATCH_SIZE * _MERGE_SIZE * _MOST_TOKENS,  # no windows: every layer attends to the image
            "initializer_range": width**-0.5,
        },
        image_token_id=tokenizer.convert_tokens_to_ids(IMAGE),
        video_token_id=-1,
        vision_start_token_id=-1,
        vision_end_token_id=-1,
        tie_word_embeddings=True,
    )
    return random_model(Qwen2_5_VLForConditionalGeneration, architecture, seed=seed, device=device)
