"""What a created model and a loaded one have in common."""

from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import PreTrainedModel

from openenv.rl.models.chat import word_tokenizer
from openenv.rl.models.language_model import load_model, tiny_model
from openenv.rl.models.sources.tiny_vision import tiny_vision_model
from tests.rl.echo_game import echo_config


def attention(model: PreTrainedModel) -> dict[str, str]:
    """The attention that each part of the model computes with."""
    return {name: part.config._attn_implementation for name, part in model.named_modules() if hasattr(part, "config")}


@pytest.mark.parametrize("create", [tiny_model, tiny_vision_model])
@pytest.mark.parametrize("name", ["cpu", "meta"])  # meta computes nothing; it stands for every device but the processor
def test_a_model_has_the_attention_that_it_has_when_a_resumed_run_loads_it(
    create: Any, name: str, tmp_path: Path
) -> None:
    device = torch.device(name)
    tokenizer = word_tokenizer(["left stay right"], images=create is tiny_vision_model)
    create(echo_config().model, tokenizer, max_length=64, seed=0).save_pretrained(tmp_path)
    tokenizer.save_pretrained(tmp_path)

    created = create(echo_config().model, tokenizer, max_length=64, seed=0, device=device)
    loaded, _ = load_model(tmp_path, device=device)

    assert created.device.type == loaded.device.type == name
    assert attention(created) == attention(loaded)
    assert len(attention(created)) > 2
