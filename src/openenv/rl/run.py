"""A run with its comparison: baselines, the model before and after GRPO, optimal play, and the report."""

import dataclasses
import logging
import re
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from uvicorn.loops.auto import auto_loop_factory

from openenv.core.utils import run_async_safely
from openenv.envs.catalog import game_keyword
from openenv.rl.config import Config, ConfigError, EnvConfig, RewardConfig, require
from openenv.rl.config_file import config_from_mapping
from openenv.rl.evaluation.comparison import Comparison
from openenv.rl.model_defaults import TINY_WITHOUT_FILE
from openenv.rl.progress import OnProgress
from openenv.rl.reports.report import write_report
from openenv.rl.reports.results import PlayerResult, load_results
from openenv.rl.reports.run_state import failure_kept
from openenv.rl.setup import TrainingRun, setup_training

if TYPE_CHECKING:
    from openenv.rl.algorithm.rewards import Reward

log = logging.getLogger(__name__)

_STEPS_TO_JUDGE = 10
"""A run of fewer steps may have had no signal by chance, unless it was to make more."""


@dataclass(frozen=True, kw_only=True)
class RunResult:
    """The result of `run`."""

    run_dir: Path
    """The run's folder."""
    report: Path
    """The HTML report."""
    results: list[PlayerResult]
    """The results of all players, in the order of the table."""
    steps: int
    """Number of optimizer steps."""
    failure: str = ""
    """Why the run has learned nothing; empty if it may have."""


def with_game(config: Config, game: str) -> Config:
    """The same configuration for another game of the environment. The run is named after the game.

    Rewards by outcome belong to the game of the file: another game has its own returns as rewards.
    """
    rule = "the file has several environments, so a game cannot replace that of one. Change the file."
    require(len(config.env) == 1, "--game", game, rule)
    only = config.env[0]
    keyword = game_keyword(only.name)
    require(keyword is not None, "--game", game, f"{only.name} chooses no game by name. Set env.reset in the file.")
    env = [dataclasses.replace(only, reset={**only.reset, str(keyword): game})]
    reward = config.reward if env == config.env else _without_outcomes(config.reward)
    return dataclasses.replace(config, name=game, env=env, reward=reward)


def with_environment(config: Config, name: str) -> Config:
    """The same configuration for one other environment, by any name of `env.name`. The run is named after it.

    What belongs to the environments of the file goes: its server, text interface, reset keywords, rewards by outcome.
    """
    reward = _without_outcomes(config.reward)
    own = re.sub(r"^.*\.py:", "", name)  # the class or function of a file
    words = re.sub(r"[^\w.-]+", "_", own).strip("._") or "run"
    return dataclasses.replace(config, name=words, env=[EnvConfig(name=name)], reward=reward)


def config_without_file(env: str, model_path: str = "") -> Config:
    """The configuration of a run in an environment, by any name of `env.name`, that no file describes.

    model_path: of a pretrained model, with its defaults. Empty: the tiny model.
    """
    data = {"model": {"path": model_path, "instructions": True}} if model_path else TINY_WITHOUT_FILE
    return with_environment(config_from_mapping(data), env)


def seed_runs(config: Config, number: int) -> list[Config]:
    """The configurations of as many runs that differ in their seed and in the suffix of their name."""
    seeds = range(config.seed, config.seed + number)
    return [dataclasses.replace(config, seed=seed, name=f"{config.name}-seed{seed}") for seed in seeds]


def _without_outcomes(reward: RewardConfig) -> RewardConfig:
    """The same settings with the environment's own rewards."""
    if reward.by_outcome is None:
        return reward
    return dataclasses.replace(reward, win=None, push=None, loss=None, unparseable=None)


async def run(
    config: Config, *, reward: "Reward | None" = None, resume: bool = False, on_progress: OnProgress | None = None
) -> RunResult:
    """Evaluate the baselines and the model, train the model, evaluate it again, and write the report.

    A run that is cancelled or fails writes a report too, with the results up to then.
    """
    with _determinism_named():
        training = await setup_training(config, reward=reward, resume=resume, on_progress=on_progress)
    try:
        with failure_kept(config.run_dir), _determinism_named():
            comparison = Comparison(training, on_progress)
            with training.engine.budget.counting():
                await comparison.baselines()
            steps_left = config.trainer.training.steps - training.engine.progress.step
            if steps_left > 0:
                await training.run(steps_left)
            with training.engine.budget.counting():
                await comparison.trained_model()
    finally:
        await training.shutdown()
        report = write_report(config.run_dir)
    return RunResult(
        run_dir=config.run_dir,
        report=report,
        results=load_results(config.run_dir),
        steps=training.engine.progress.step,
        failure=_failure(training),
    )


def _failure(training: TrainingRun) -> str:
    """Why a run has learned nothing: its policy has collapsed, or no step had anything to learn from."""
    collapse, progress = training.training_log.collapse, training.engine.progress
    if collapse.sign is not None and collapse.has_learned_nothing:
        return f"the policy has collapsed ({collapse.sign.name}): {collapse.remedy}"
    if not progress.step and training.config.trainer.training.steps:
        limit = training.config.max_minutes
        return f"no step was made: max_minutes={limit} was spent before. Raise it, or lower pretrain or warm_start."
    is_cut = progress.step < training.config.trainer.training.steps
    if not progress.last_signal and (is_cut or progress.step >= _STEPS_TO_JUDGE):
        return (
            f"steps={progress.step}: the episodes from one start had equal rewards in each, so that nothing was "
            "learned. Raise group_size, teach the model first (warm_start), or let the environment reward progress."
        )
    return ""


@contextmanager
def _determinism_named() -> Iterator[None]:
    """An operation that PyTorch has no deterministic algorithm for raises ConfigError with the setting."""
    try:
        yield
    except (RuntimeError, ValueError) as error:
        operation = re.search(r"(\w+) does not have a deterministic implementation", str(error))
        if operation is None:
            raise
        remedy = "Set it to false: runs with equal seeds then differ after a few steps"
        raise ConfigError(f"model.deterministic=True: PyTorch has none for {operation[1]}. {remedy}.") from error


def run_blocking(config: Config, *, resume: bool = False, on_progress: OnProgress | None = None) -> RunResult:
    """`run` for code that is not asynchronous, a notebook's cell included.

    After Ctrl-C it writes the report and raises KeyboardInterrupt.
    """
    training = run(config, resume=resume, on_progress=on_progress)
    return run_async_safely(training, loop_factory=auto_loop_factory())
