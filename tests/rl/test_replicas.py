"""A run with several servers of its environment is the run with one, also where a server ends."""

import asyncio
import os
import signal
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file

from openenv.rl.config import ConfigError
from openenv.rl.config_file import config_from_mapping
from openenv.rl.environments import serve_environment
from openenv.rl.reports.results import read_rows
from openenv.rl.setup import TrainingRun, setup_training
from tests.rl.test_setup import TINY, tiny

pytestmark = pytest.mark.process

STEPS = 6
MEASURED = ("wait_time", "step_time", "training_s", "buffer/evicted")


async def train(folder: Path, replicas: int, disturb: Callable[[TrainingRun], Any] | None = None) -> tuple[Any, ...]:
    """Make the steps of a run. Returns its metrics, transcripts and weights. disturb: a coroutine that runs beside."""
    training = await setup_training(
        tiny(folder, env={**TINY["env"], "replicas": replicas}, model={**TINY["model"], "precision": "float32"})
    )
    try:
        disturbing = asyncio.ensure_future(disturb(training)) if disturb else None
        await training.run(STEPS)
        if disturbing is not None:
            await disturbing
    finally:
        await training.shutdown()
    written = training.config.run_dir
    rows = [{key: row[key] for key in row if key not in MEASURED} for row in read_rows(written / "metrics.jsonl")]
    assert len(rows) == STEPS
    weights = load_file(written / f"checkpoints/step_{STEPS:06d}/model.safetensors")
    return rows, (written / "transcripts.jsonl").read_text(encoding="utf-8"), weights


def assert_equal(one: tuple[Any, ...], other: tuple[Any, ...]) -> None:
    assert one[:2] == other[:2]
    assert one[2].keys() == other[2].keys()
    assert all(torch.equal(weights, other[2][name]) for name, weights in one[2].items())


async def test_the_number_of_servers_changes_no_bit_of_a_run_nor_does_the_end_of_one(tmp_path: Path) -> None:
    ends: list[int] = []

    async def end_one(training: TrainingRun) -> None:
        fleet = training.engine.environments[0].served.fleet
        assert fleet is not None
        while training.engine.progress.step < 2:  # noqa: ASYNC110  nothing else is known of a run that goes on
            await asyncio.sleep(0.01)
        os.kill(fleet.servers[1].pid, signal.SIGKILL)
        while training.engine.progress.step < STEPS:  # noqa: ASYNC110
            await asyncio.sleep(0.01)
        ends.append(fleet.num_ended)

    one = await train(tmp_path / "one", 1)

    assert_equal(await train(tmp_path / "three", 3), one)
    assert_equal(await train(tmp_path / "ended", 3, end_one), one)
    assert ends == [1]


@pytest.mark.parametrize("env", [{"name": "http://localhost:1"}, {"name": "docker:echo-env"}])
async def test_replicas_of_a_server_that_the_run_does_not_start_are_refused(env: dict[str, Any]) -> None:
    config = config_from_mapping({"env": {**env, "replicas": 2}}).env[0]

    with pytest.raises(ConfigError, match=r"env\.replicas=2: only a server that the run starts"):
        await serve_environment(config, None)  # type: ignore[arg-type]  nothing is opened


def test_replicas_beside_a_server_are_refused() -> None:
    with pytest.raises(ConfigError, match=r"env\.replicas=2: .* Leave one of env\.replicas and env\.server_url out"):
        config_from_mapping({"env": {"name": "echo", "server_url": "http://localhost:1", "replicas": 2}})
    with pytest.raises(ConfigError, match=r"env\.replicas=0: must be at least 1"):
        config_from_mapping({"env": {"name": "echo", "replicas": 0}})
