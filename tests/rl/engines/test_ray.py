"""The engine on Ray makes the run of the embedded engine, whatever its number of actors, and whichever of them ends."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import ray
import torch
from safetensors.torch import load_file
from torch import Tensor

from openenv.rl.config import Config, ConfigError
from openenv.rl.config_file import config_from_mapping
from openenv.rl.engines.ray_cluster.engine import RayEngine
from openenv.rl.reports.results import read_rows
from openenv.rl.setup import setup_training

STEPS = 20
SETTINGS: dict[str, Any] = {
    "env": {"name": "openspiel", "reset": {"game_name": "blackjack"}},
    "seed": 1,
    "model": {"precision": "float32", "num_layers": 1, "hidden_size": 64, "num_heads": 2},
    "pretrain": {"steps": 30, "max_decisions": 4000},
    "replay_buffer": {"batch_size": 12},
    "loss": {"kl_weight": 0.02},
}
MEASURED = ("wait_time", "step_time", "training_s", "buffer/evicted")


def config_of(folder: Path, engine: str, **settings_of_engine: Any) -> Config:
    settings = {**SETTINGS, "name": engine, "engine": {"name": engine, "parts": 6, **settings_of_engine}}
    return config_from_mapping({**settings, "checkpoint": {"folder": str(folder), "interval": 7}})


async def train(config: Config, disturb: Callable[[RayEngine], Any] | None = None) -> "Run":
    """Make the steps of a run. disturb: a coroutine that runs beside it, of the engine."""
    training = await setup_training(config)
    try:
        disturbing = asyncio.ensure_future(disturb(training.engine)) if disturb else None
        await training.run(STEPS)
        if disturbing is not None:
            await disturbing
    finally:
        await training.shutdown()
    return Run(config.run_dir)


class Run:
    """What a run has written."""

    def __init__(self, folder: Path) -> None:
        self.rows = [
            {key: value for key, value in row.items() if key not in MEASURED}
            for row in read_rows(folder / "metrics.jsonl")
        ]
        self.weights: dict[str, Tensor] = load_file(folder / f"checkpoints/step_{STEPS:06d}/model.safetensors")
        self.transcripts = (folder / "transcripts.jsonl").read_text(encoding="utf-8")

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Run)
        for mine, theirs in zip(self.rows, other.rows, strict=True):
            assert {key: (mine[key], theirs.get(key)) for key in mine if mine[key] != theirs.get(key)} == {}
            assert mine.keys() == theirs.keys()
        assert self.transcripts == other.transcripts
        assert self.weights.keys() == other.weights.keys()
        return all(torch.equal(self.weights[name], other.weights[name]) for name in self.weights)


@pytest.fixture(scope="module")
def embedded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Run]:
    threads = torch.get_num_threads()
    yield asyncio.run(train(config_of(tmp_path_factory.mktemp("embedded"), "embedded")))
    torch.set_num_threads(threads)


@pytest.mark.parametrize(("rollout_workers", "generators"), [(1, 1), (3, 2)])
async def test_equal_seeds_have_equal_trajectories_and_weights(
    embedded: Run, rollout_workers: int, generators: int, tmp_path: Path
) -> None:
    config = config_of(tmp_path, "ray", rollout_workers=rollout_workers, generators=generators)

    assert await train(config) == embedded
    assert not ray.is_initialized()


async def test_actors_that_end_change_nothing(embedded: Run, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    ended, recoveries = list[str](), list[int]()

    async def disturb(engine: RayEngine) -> None:
        for step, kind in ((2, "worker"), (5, "generator"), (9, "rank"), (12, "generator"), (15, "worker")):
            await reached(engine, step)
            actors = {"worker": engine.actors, "generator": engine._replicas, "rank": engine.trainer._ranks}[kind]
            ray.kill(actors[-1], no_restart=kind == "rank")
            ended.append(kind)
        await reached(engine, STEPS)
        recoveries.append(engine.num_recoveries)

    config = config_of(tmp_path, "ray", rollout_workers=2, generators=2)

    assert await train(config, disturb) == embedded
    assert recoveries == [1]
    assert "rollout worker 1 has ended" in caplog.text
    assert sorted(ended) == ["generator", "generator", "rank", "worker", "worker"]


async def reached(engine: RayEngine, step: int) -> None:
    while engine.progress.step < step:  # noqa: ASYNC110  nothing else is known of a run that goes on
        await asyncio.sleep(0.01)


def test_what_the_engine_does_not_have_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"engine\.rollout_workers=3: .* Raise engine\.parts"):
        config_from_mapping({"engine": {"name": "ray", "rollout_workers": 3}})
    with pytest.raises(ConfigError, match=r"engine\.generators=2: is for engine\.name: ray"):
        config_from_mapping({"engine": {"generators": 2}})
    with pytest.raises(ConfigError, match=r"on_collapse='rollback': is not for engine\.name: ray"):
        config_from_mapping({"engine": "ray", "on_collapse": "rollback"})
    with pytest.raises(ConfigError, match=r"sampling\.partial_rollouts=True: is not for engine\.name: ray"):
        config_from_mapping({"engine": "ray", "sampling": {"partial_rollouts": True}})
