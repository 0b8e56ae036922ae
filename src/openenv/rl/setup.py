"""Puts a whole run together from its YAML file: server, model, reading phase, rollouts, trainer.

Importing this module is cheap; torch is imported when `setup_training` is called.
"""

import asyncio
import contextlib
import itertools
import json
import logging
from collections.abc import Callable
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv.core.containers.local_process import LocalServer
from openenv.core.vector import SessionPool
from openenv.envs import catalog
from openenv.rl.config import Config, ConfigError, load_config
from openenv.rl.metrics import MetricsLog

if TYPE_CHECKING:
    from openenv.rl.engine import Engine
    from openenv.rl.reward import Reward

log = logging.getLogger(__name__)

OnProgress = Callable[[str, int, int, dict[str, Any]], None]
"""Called with the phase (reading about `gather`, `read`, `train`, `evaluate ...`), how much of it is done, how much
there is, and what is known (the metrics of a training step)."""


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """What a call of `run` made."""

    run_dir: Path
    """Where metrics, checkpoints and report are."""
    steps: int
    """Optimizer steps made so far in the whole run."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """The metrics of the last step."""


class TrainingRun:
    """A run that is ready to train. Made by `setup_training`; ended by `shutdown`."""

    def __init__(
        self, config: Config, server_url: str, stack: contextlib.AsyncExitStack, engine: "Engine", metrics: MetricsLog
    ) -> None:
        self.config = config
        self.server_url = server_url
        """The environment's server, started for the run or named in its file."""
        self.engine = engine
        self._stack = stack
        self._metrics = metrics
        self._on_progress: OnProgress = _silent

    async def run(self, steps: int | None = None) -> TrainingResult:
        """Make `steps` optimizer steps, or as many as the file says; call it again to go on.

        Cancelling it (Ctrl-C) keeps the steps made: metrics are written, a checkpoint is saved.
        """
        from openenv.rl.loop import TrainingLoop

        first = self.engine.progress.step
        wanted = self.config.trainer.training.steps if steps is None else steps
        last: dict[str, Any] = {}

        def on_step(row: dict[str, Any]) -> None:
            last.update(row)
            self._on_progress("train", row["step"] - first, wanted, row)

        async with contextlib.AsyncExitStack() as pools:
            rollouts = [self.engine.rollout(await pools.enter_async_context(self.pool())) for _ in range(2)]
            engine = self.engine
            loop = TrainingLoop(
                rollouts,
                engine.trainer,
                engine.store,
                engine.checkpoints,
                engine.chat,
                self.config,
                self._metrics,
                engine.progress,
                engine.batch_size,
            )
            try:
                await loop.run(wanted, on_step)
            finally:
                engine.progress = loop.progress
        return TrainingResult(run_dir=self.config.run_dir, steps=engine.progress.step, metrics=last)

    def pool(self, num_sessions: int | None = None) -> SessionPool[Any, Any]:
        """Sessions with the run's server, as many as one rollout worker plays if no number is given."""
        entry = catalog.load(self.config.env.name)
        number = num_sessions or self.config.rollout_threads * self.config.group_size
        return SessionPool(entry.client_class, self.server_url, number)

    async def shutdown(self) -> None:
        """Stop the server, if it was started for the run, and the threads. Shutting down twice does nothing."""
        await self._stack.aclose()


async def setup_training(
    config: str | Path | Config,
    *,
    reward: "Reward | None" = None,
    resume: bool = False,
    on_progress: OnProgress | None = None,
) -> TrainingRun:
    """A run that is ready to train: the server answers, the model is loaded or has read its transcripts.

    config: the run's YAML file. reward: what an episode is worth, instead of the file's win, push and loss. resume: go
    on from the run's latest checkpoint, if there is one; otherwise an earlier run of the same name is moved aside
    (`name.1`, `name.2`, ...).
    Works where an event loop already runs, as in a notebook.

    Raises ConfigError for a file that cannot be used, ServerUnreachable when the server does not answer.
    """
    config = config if isinstance(config, Config) else load_config(config)
    on_progress = on_progress or _silent
    from openenv.rl.engine import Engine  # imports torch

    async with contextlib.AsyncExitStack() as stack:
        going_on = resume and config.run_dir.exists()
        server_url = config.env.server_url or await _start_server(config, stack)
        if going_on:
            _same_settings(config)
        else:
            _fresh_folder(config)
        engine = await Engine.make(config, server_url, reward, resume=going_on, on_progress=on_progress)
        stack.callback(engine.close)
        metrics = MetricsLog(config.run_dir / "metrics.jsonl", first_step=engine.progress.step)
        run = TrainingRun(config, server_url, stack.pop_all(), engine, metrics)
        run._on_progress = on_progress
        return run
    raise AssertionError("unreachable: an exit stack swallows nothing")


setup_forge_training = setup_training
"""The tutorial's name."""


async def _start_server(config: Config, stack: contextlib.AsyncExitStack) -> str:
    server = LocalServer(catalog.load(config.env.name).server)
    await asyncio.to_thread(server.start)
    stack.callback(server.stop)
    return server.base_url


def _fresh_folder(config: Config) -> None:
    """Make the run's folder; what an earlier run left there is kept under the first free name."""
    folder = config.run_dir
    if folder.exists():
        names = (folder.with_name(f"{folder.name}.{number}") for number in itertools.count(1))
        folder.rename(next(name for name in names if not name.exists()))
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps(asdict(config), indent=2), encoding="utf-8")


def _same_settings(config: Config) -> None:
    """Raise ConfigError when a run shall go on under other settings than it began with, its length excepted."""
    began = json.loads((config.run_dir / "config.json").read_text(encoding="utf-8"))
    now = json.loads(json.dumps(asdict(config)))
    for settings in (began, now):
        settings["trainer"].pop("training")
    changed = [key for key in now if now[key] != began.get(key)]
    if changed:
        raise ConfigError(
            f"{', '.join(changed)}: run {config.name!r} began with other values; resume it with its own file, or give "
            "the new one another name."
        )


def _silent(phase: str, done: int, total: int, known: dict[str, Any]) -> None:
    """Reports nothing."""
