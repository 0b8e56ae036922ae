"""Runs of both engines, and what they have written."""

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from openenv.rl.config import Config
from openenv.rl.config_file import config_from_mapping
from openenv.rl.engines.ray_cluster.engine import RayEngine
from openenv.rl.reports.results import read_rows
from openenv.rl.setup import setup_training

SETTINGS: dict[str, Any] = {
    "env": {"name": "openspiel", "reset": {"game_name": "blackjack"}},
    "seed": 1,
    "model": {"precision": "float32", "num_layers": 1, "hidden_size": 64, "num_heads": 2},
    "pretrain": {"steps": 30, "max_decisions": 1000, "batch_size": 64},
    "replay_buffer": {"batch_size": 12},
    "loss": {"kl_weight": 0.02},
}
MEASURED = ("wait_time", "step_time", "training_s", "buffer/evicted")


def config_of(
    folder: Path, engine: str, settings: dict[str, Any] | None = None, interval: int = 7, **settings_of_engine: Any
) -> Config:
    """The settings of a run, with an engine."""
    chosen = {**SETTINGS, **(settings or {}), "name": engine}
    one_worker = {"rollout_workers": 1} if engine == "ray" else {}  # each takes seconds to start
    chosen["engine"] = {"name": engine, "parts": 6, **one_worker, **settings_of_engine}
    return config_from_mapping({**chosen, "checkpoint": {"folder": str(folder), "interval": interval}})


async def train(
    config: Config,
    steps: int,
    disturb: Callable[[RayEngine], Any] | None = None,
    *,
    reward: Any = None,
    resume: bool = False,
) -> "Run":
    """Make the steps of a run. disturb: a coroutine that runs beside it, of the engine."""
    training = await setup_training(config, reward=reward, resume=resume)
    try:
        disturbing = asyncio.ensure_future(disturb(training.engine)) if disturb else None
        await training.run(steps)
        if disturbing is not None:
            await disturbing
    finally:
        await training.shutdown()
    return Run(config.run_dir)


async def reached(engine: RayEngine, step: int) -> None:
    """Wait until a run has made so many steps."""
    while engine.progress.step < step:  # noqa: ASYNC110  nothing else is known of a run that goes on
        await asyncio.sleep(0.01)


class Run:
    """What a run has written."""

    def __init__(self, folder: Path) -> None:
        self.rows = [
            {key: value for key, value in row.items() if key not in MEASURED}
            for row in read_rows(folder / "metrics.jsonl")
        ]
        latest = (folder / "checkpoints/latest").read_text(encoding="utf-8")
        (file,) = (folder / "checkpoints" / latest).glob("*model.safetensors")  # of the model, or of its adapter
        self.weights: dict[str, Tensor] = load_file(file)
        self.transcripts = (folder / "transcripts.jsonl").read_text(encoding="utf-8")

    def __eq__(self, other: object) -> bool:
        assert isinstance(other, Run)
        for mine, theirs in zip(self.rows, other.rows, strict=True):
            assert {key: (mine[key], theirs.get(key)) for key in mine if mine[key] != theirs.get(key)} == {}
            assert mine.keys() == theirs.keys()
        assert self.transcripts == other.transcripts
        return self.distance(other) == 0

    def distance(self, other: "Run") -> float:
        """The largest between the weights of two runs."""
        assert self.weights.keys() == other.weights.keys()
        return max(float((self.weights[name] - other.weights[name]).abs().max()) for name in self.weights)
