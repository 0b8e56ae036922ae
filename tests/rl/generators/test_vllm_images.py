"""Real vLLM reads images as the trainer does, in its own virtual environment: `make vllm`."""

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from openenv.policies.prompts import ChatMessage
from openenv.rl.algorithm.batch import make_batch
from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.config import ModelConfig
from openenv.rl.generators.of_run import RunGenerators
from openenv.rl.models.chat import Chat, word_tokenizer
from openenv.rl.models.sources.tiny_vision import tiny_image_reader, tiny_vision_model
from openenv.rl.models.weight_store import WeightStore
from openenv.rl.training.checkpoint import save_model
from openenv.rl.training.trainer import ReferenceModel
from openenv.text.content import image_part
from tests.rl.generators.test_vllm import BOUND, config_of

pytestmark = [pytest.mark.vllm, pytest.mark.process]

WORDS = ["left stay right what is it", "<|vision_start|> <|vision_end|> <|video_pad|>"]
"""With the tokens that vLLM expects of every Qwen2.5-VL."""


def frame(number: int) -> Any:
    """Noise, each of another height."""
    pixels = np.random.default_rng(number).integers(0, 256, (28 + 14 * number, 42, 3), dtype=np.uint8)
    return image_part("frame", pixels)


def test_images_are_read_as_the_trainer_reads_them(tmp_path: Path) -> None:
    tokenizer = word_tokenizer(WORDS, images=True)
    chat = Chat(tokenizer, image_reader=tiny_image_reader())
    sizes = ModelConfig(hidden_size=64, num_layers=2, num_heads=2, intermediate_size=128)
    model = tiny_vision_model(sizes, tokenizer, max_length=4096, seed=0)
    folder, store = tmp_path / "model", WeightStore()
    save_model(folder, model, chat)
    config = config_of(tmp_path, model={"path": str(folder), "precision": "float32"}, max_res_tokens=8)
    generators = RunGenerators(config, chat, model, str(folder))
    generator = generators.for_rollouts(model, store)
    question = {"type": "text", "text": "what is it"}
    talks: list[list[ChatMessage]] = [
        [{"role": "user", "content": [frame(number), question, frame(number + 1)]}] for number in range(4)
    ]
    try:
        generators.start()
        for version in range(2):
            store.publish(model, version)
            segments = generator.answer(talks, [random.Random(number) for number in range(4)], chat)

            episodes = [Trajectory(seed=0, segments=[segment], outcome="won") for segment in segments]
            batch = make_batch([Group(0, episodes)], "grpo", 0)
            own = ReferenceModel(model, "float32").scores(batch).logprobs[batch.position]
            assert [segment.policy_version for segment in segments] == [version] * 4
            assert all(len(segment.images) == 2 for segment in segments)
            assert (own - batch.generator_logprobs).abs().max() < BOUND
            with torch.no_grad():
                for weights in model.parameters():
                    weights.mul_(1.5)
    finally:
        generators.close()
