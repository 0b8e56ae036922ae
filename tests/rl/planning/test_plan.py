"""The memory of a run is planned before weights are read."""

import dataclasses
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from transformers import Qwen3Config, Qwen3ForCausalLM

from openenv.rl.config import ConfigError, LoraSettings, ModelConfig
from openenv.rl.config_file import config_from_mapping
from openenv.rl.planning.memory import _group_rooms
from openenv.rl.planning.pass_memory import ModelOutline
from openenv.rl.planning.plan import MemoryPlan, Part, Sequences, _with_passes, plan_run
from openenv.rl.run import config_without_file

PRETRAINED = Path(__file__).parents[3] / "models" / "smollm2-135m"
CPU = torch.device("cpu")
SHAPE: dict[str, Any] = {"shared": 0, "columns": 2, "positions": 8}

needs_model = pytest.mark.skipif(not PRETRAINED.is_dir(), reason="no models/smollm2-135m: run `make model`")


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> ModelConfig:
    folder = tmp_path_factory.mktemp("small")
    architecture = Qwen3Config(
        vocab_size=500, hidden_size=64, intermediate_size=128, num_hidden_layers=2, num_attention_heads=2,
        num_key_value_heads=1, head_dim=32, tie_word_embeddings=True,
    )  # fmt: skip
    Qwen3ForCausalLM(architecture).save_pretrained(folder)
    return ModelConfig(path=str(folder), precision="float32")


def test_the_outline_has_the_weights_of_the_loaded_model(small: ModelConfig) -> None:
    weights = sum(one.nbytes for one in Qwen3ForCausalLM.from_pretrained(small.path).parameters())

    outline = ModelOutline(small, CPU)

    assert outline.weight_bytes == outline.trained_bytes == weights


def test_an_adapter_alone_is_trained(small: ModelConfig) -> None:
    outline = ModelOutline(dataclasses.replace(small, lora=LoraSettings(rank=2), weights="bfloat16"), CPU)

    assert outline.trained_bytes < outline.weight_bytes / 2


def test_a_pass_of_more_sequences_needs_more_and_checkpointing_less(small: ModelConfig) -> None:
    outline = ModelOutline(small, CPU)
    few, many = (outline.training_bytes(rows, 20, **SHAPE) for rows in (8, 16))
    checkpointed = ModelOutline(dataclasses.replace(small, gradient_checkpointing=True), CPU)

    assert 1.7 * few < many < 2.3 * few
    assert checkpointed.training_bytes(16, 20, **SHAPE) < many
    assert outline.training_bytes(16, 20, **{**SHAPE, "shared": 16}) < many / 2


def test_weights_are_in_no_pass_and_the_generator_keeps_its_matrices_in_bfloat16(small: ModelConfig) -> None:
    half = dataclasses.replace(small, weights="bfloat16", precision="bfloat16")
    mixed = dataclasses.replace(small, precision="bfloat16")
    outline, player = ModelOutline(mixed, CPU), ModelOutline(mixed, CPU, samples=True)

    assert ModelOutline(half, CPU).sampling_bytes(1, 2, shared=0) < ModelOutline(half, CPU).weight_bytes / 2
    assert outline.trained_bytes / 2 < player.trained_bytes < outline.trained_bytes
    cast = outline.sampling_bytes(1, 2, shared=0) - player.sampling_bytes(1, 2, shared=0)
    assert cast == pytest.approx(outline.trained_bytes - player.trained_bytes, rel=0.1)


def test_what_does_not_fit_is_refused_with_what_helps() -> None:
    parts = {"always": [Part(name="weights", size_bytes=9)], "training": [], "evaluation": []}
    plan = MemoryPlan(device="cpu", usable_bytes=8, num_weights=2, **parts)

    with pytest.raises(ConfigError, match=r"The largest part is weights.*trainer\.tokens_per_forward.*model\.lora"):
        plan.require()
    dataclasses.replace(plan, usable_bytes=9).require()


def test_of_training_and_evaluation_the_larger_counts() -> None:
    parts = [Part(name=f"{size}", size_bytes=size) for size in (1, 20, 300)]

    plan = MemoryPlan(
        device="cpu", usable_bytes=None, num_weights=1, always=parts[:1], training=parts[1:2], evaluation=parts[2:]
    )

    assert plan.total_bytes == 301


def test_the_limits_of_all_control_groups_hold(tmp_path: Path) -> None:
    (tmp_path / "outer" / "inner").mkdir(parents=True)
    for folder, limit in (("outer", "1000"), ("outer/inner", "max")):
        (tmp_path / folder / "memory.max").write_text(limit)
        (tmp_path / folder / "memory.current").write_text("700\n")
        (tmp_path / folder / "memory.stat").write_text("anon 1\ninactive_file 100\n")
    (tmp_path / "own").write_text("0::/outer/inner\n")

    rooms = _group_rooms(tmp_path, tmp_path / "own")

    assert [room for room in rooms if room is not None] == [400]


async def test_the_tiny_model_has_no_plan() -> None:
    with pytest.raises(ConfigError, match="the tiny model fits into 2 GB"):
        await plan_run(config_without_file("guess"))


LONG = Sequences(longest=900, shared=100, columns=800, sampled=4, in_batch=16, in_flight=400)


def planned(small: ModelConfig, usable_bytes: int | None, **settings: Any) -> MemoryPlan:
    """The plan of a run with long prompts and 256 sessions of evaluation."""
    config = config_from_mapping({"model": {"path": small.path, "precision": "float32"}, **settings})
    outline = ModelOutline(small, CPU)
    begun = MemoryPlan(
        device="cpu", usable_bytes=usable_bytes, num_weights=1, training=[], evaluation=[],
        always=[Part(name="weights", size_bytes=outline.weight_bytes)],
    )  # fmt: skip
    return _with_passes(config, outline, ModelOutline(small, CPU, samples=True), begun, LONG)


def test_prompts_are_answered_in_as_many_parts_as_fit(small: ModelConfig) -> None:
    free = planned(small, None)
    assert free.tokens_at_once is None

    tight = planned(small, free.total_bytes // 3)

    assert tight.fits
    assert tight.tokens_at_once is not None
    assert tight.tokens_at_once < 256 * LONG.longest / 2
    given = planned(small, free.total_bytes // 3, sampling={"tokens_at_once": 500_000})
    assert not given.fits, "a value of the file is not changed"


RUN = """
import json, os, resource, sys
from openenv.rl.config_file import config_from_mapping
from openenv.rl.run import run_blocking
run_blocking(config_from_mapping(json.loads(sys.argv[1])))
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024)
"""
PLAN = """
import asyncio, json, sys
from openenv.rl.config_file import config_from_mapping
from openenv.rl.planning.plan import plan_run
print(asyncio.run(plan_run(config_from_mapping(json.loads(sys.argv[1])))).total_bytes)
"""


@needs_model
@pytest.mark.slow
@pytest.mark.real_model
@pytest.mark.process
def test_the_plan_is_within_15_percent_of_the_memory_that_is_used(tmp_path: Path) -> None:
    config = json.dumps(
        {
            "env": {"name": "openspiel", "reset": {"game_name": "blackjack"}},
            "model": {"path": str(PRETRAINED), "instructions": True},
            "trainer": {"training": {"steps": 2}},
            "evaluation": {"num_games": 50},
            "replay_buffer": {"batch_decisions": 200},
            "checkpoint": {"folder": str(tmp_path)},
        }
    )

    planned, used = (
        int(subprocess.run([sys.executable, "-c", program, config], check=True, capture_output=True).stdout)
        for program in (PLAN, RUN)
    )

    assert planned == pytest.approx(used, rel=0.15)
