"""Assembles a run from its configuration: server, model, pretraining, rollouts, trainer.

Importing this module is cheap; `setup_training` imports torch when it is called.
"""

import asyncio
import contextlib
import importlib.util
import itertools
import json
import logging
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from openenv.formats.json_text import json_text
from openenv.installation import install_line
from openenv.rl.budget import Budget
from openenv.rl.config import Config, ConfigError
from openenv.rl.config_file import config_from_mapping, load_config, require_model, with_current_keys
from openenv.rl.environments import serve_environment
from openenv.rl.evaluation.curve import EvaluationCurve
from openenv.rl.loop import TrainingLoop
from openenv.rl.progress import OnProgress, pace, with_time_left
from openenv.rl.reports.best_checkpoint import BestCheckpoint
from openenv.rl.reports.results import replace_text
from openenv.rl.reports.run_state import failure_kept, running
from openenv.rl.reports.trackers import Trackers, require_installed
from openenv.rl.reports.training_log import TrainingLog
from openenv.rl.waiting.run_log import logged_to_run
from openenv.rl.waiting.status import RunStatus

if TYPE_CHECKING:
    from openenv.rl.algorithm.rewards import Reward
    from openenv.rl.engines.base import BaseEngine

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class TrainingResult:
    """The result of a call of `TrainingRun.run`."""

    run_dir: Path
    """The folder of metrics, checkpoints and report."""
    steps: int
    """Optimizer steps of the whole run so far."""
    metrics: dict[str, Any] = field(default_factory=dict)
    """The metrics of the last step."""


class TrainingRun:
    """A run that is ready to train. `setup_training` creates it; `shutdown` ends it."""

    def __init__(
        self,
        config: Config,
        stack: contextlib.AsyncExitStack,
        engine: "BaseEngine",
        training_log: TrainingLog,
        on_progress: OnProgress,
    ) -> None:
        """stack: closes the servers and the engine."""
        self.config = config
        self.engine = engine
        self._stack = stack
        self.training_log = training_log
        """Records steps and evaluations."""
        self._on_progress = on_progress

    async def run(self, steps: int | None = None) -> TrainingResult:
        """Make `steps` optimizer steps (default: as many as configured). Call it again to continue.

        A cancellation (Ctrl-C) keeps the steps that were made: metrics are written and a checkpoint is saved.
        """
        first = self.engine.progress.step
        wanted = self.config.trainer.training.steps if steps is None else steps
        last: dict[str, Any] = {}

        times_s: list[float] = []

        def on_step(row: dict[str, Any]) -> None:
            self.engine.release_freed()
            last.update(row)
            done = row["step"] - first
            times_s.append(row["step_time"])
            known = {**row, **pace(times_s, wanted - done), "transcripts": self.training_log.newest}
            if done == 2:
                figures = row["step"], known["s_a_step"], known["minutes_to_end"]
                log.info("step %d: %.1f s a step, %.1f minutes to the end", *figures)
            self._on_progress("train", done, wanted, known)

        def on_status(status: RunStatus) -> None:
            self._on_progress("train", self.engine.trainer.step_count - first, wanted, {"status": status})

        with failure_kept(self.config.run_dir):
            evaluation = self._evaluation(first, wanted)
            await TrainingLoop(self.engine, self.training_log).run(wanted, on_step, evaluation, on_status)
        return TrainingResult(run_dir=self.config.run_dir, steps=self.engine.progress.step, metrics=last)

    def _evaluation(self, first: int, wanted: int) -> EvaluationCurve:
        """The evaluation while `wanted` steps after the step `first` are made."""
        engine = self.engine

        def on_progress(done: int, total: int) -> None:
            engine.waits.num_ended += 1  # an evaluation goes on
            known = {"evaluated": done, "to_evaluate": total}
            self._on_progress("train", engine.trainer.step_count - first, wanted, known)

        return EvaluationCurve(
            self.config,
            engine.environments,
            player=partial(engine.player, temperature=0.0),
            pool=engine.pool,
            executor=engine.executor,
            best=BestCheckpoint.load(self.config.run_dir),
            save_best=engine.save_best,
            recovering=engine,
            on_progress=on_progress,
        )

    async def shutdown(self) -> None:
        """Stop the threads, and the servers that the run started. A second call does nothing."""
        await self._stack.aclose()


async def setup_training(
    config: str | Path | Config,
    *,
    reward: "Reward | None" = None,
    resume: bool = False,
    on_progress: OnProgress | None = None,
) -> TrainingRun:
    """Prepare a run for training: start or reach the servers, and load or pretrain the model.

    config: the configuration or its YAML file. reward: the reward function, instead of the configured rewards. resume:
    continue from the run's latest checkpoint if there is one; otherwise a run with the same name is renamed to
    `name.1`, `name.2`, ... Works where an event loop already runs, as in a notebook.

    Raises ConfigError for an invalid configuration, ServerUnreachable if the server does not respond, ImportError for a
    tracker of `report_to` that is not installed, TrackerFailed for one that cannot start.
    """
    config = config if isinstance(config, Config) else load_config(config)
    require_installed(config.report_to)
    budget = Budget(config.max_minutes)
    on_progress = with_time_left(on_progress, budget)
    require_model(config.model.path)
    engine_class = _engine_class(config)
    from openenv.rl.models.sources.hub_id import require_on_hub
    from openenv.rl.planning.plan import require_weights_fit
    from openenv.rl.supervised_phase import require_teacher
    from openenv.rl.training.checkpoint import Checkpoints

    await asyncio.to_thread(require_on_hub, config.model.path)
    if config.warm_start is not None:
        require_teacher(config.warm_start)
    await asyncio.to_thread(require_weights_fit, config)

    async with contextlib.AsyncExitStack() as stack:
        stack.enter_context(running(config.run_dir))
        resuming = resume and (config.run_dir / "config.json").exists()
        with budget.counting():
            served = [await serve_environment(environment, stack) for environment in config.env]
            if resuming:
                _require_same_settings(config)
            else:
                _fresh_folder(config)
            stack.enter_context(failure_kept(config.run_dir))
            stack.enter_context(logged_to_run(config.run_dir, "driver"))
            first_step = Checkpoints(config.run_dir).latest_step
            trackers = await asyncio.to_thread(Trackers.open, config, first_step)
            stack.push_async_callback(asyncio.to_thread, trackers.close)
            engine = await engine_class.make(
                config, served, reward, resume=resuming, budget=budget, on_progress=on_progress
            )
        stack.callback(engine.close)
        training_log = TrainingLog(config.run_dir, config, trackers, first_step=first_step)
        return TrainingRun(config, stack.pop_all(), engine, training_log, on_progress)
    raise AssertionError("unreachable: an exit stack suppresses no exception")


def _engine_class(config: Config) -> "type[BaseEngine]":
    """The engine of that name. Raises ImportError without Ray."""
    if config.engine.name == "ray":
        if importlib.util.find_spec("ray") is None:
            raise ImportError(f"engine.name: ray needs Ray: {install_line('ray')}")
        from openenv.rl.engines.ray_cluster.engine import RayEngine

        return RayEngine
    from openenv.rl.engines.embedded import EmbeddedEngine  # imports torch

    return EmbeddedEngine


setup_forge_training = setup_training
"""The tutorial's name."""


def _fresh_folder(config: Config) -> None:
    """Create the run's folder. The folder of an earlier run is renamed to the first free name."""
    folder = config.run_dir
    if folder.exists():
        names = (folder.with_name(f"{folder.name}.{number}") for number in itertools.count(1))
        folder.rename(next(name for name in names if not name.exists()))
    folder.mkdir(parents=True)
    replace_text(folder / "config.json", json_text(asdict(config), indent=2))


def _require_same_settings(config: Config) -> None:
    """Raise ConfigError if the configuration of a resumed run has changed in anything that its numbers depend on.

    Its length, its patience, its trackers, its transcripts, its actors, its servers, its watchdog and the interval of
    its evaluations may differ.
    """
    began = json.loads((config.run_dir / "config.json").read_text(encoding="utf-8"))
    # what the run did not know yet has its default
    began = json.loads(json_text(asdict(config_from_mapping(with_current_keys(began, warn=False)))))
    now = json.loads(json_text(asdict(config)))
    for settings in (began, now):
        settings["trainer"].pop("training")
        for env in settings["env"]:
            env.pop("replicas"), env.pop("answers_within_s")
        settings["engine"] = {key: settings["engine"][key] for key in ("parts", "trainer_ranks")}
        settings["evaluation"].pop("interval", None)
        if config.trainer.tokens_per_forward is None:
            settings["trainer"].pop("tokens_per_forward")  # the checkpoint has it
        if config.sampling.tokens_at_once is None:
            settings["sampling"].pop("tokens_at_once", None)
        for key in ("max_minutes", "watchdog_minutes", "report_to", "project", "transcripts"):
            settings.pop(key, None)
    changed = [key for key in now if now[key] != began.get(key)]
    if changed:
        raise ConfigError(
            f"{', '.join(changed)}: run {config.name!r} started with other values. Resume it with its own file, or "
            "give the new run another name."
        )
