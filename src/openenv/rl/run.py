"""A run with its comparison: baselines, the model before and after GRPO, optimal play, and the report."""

import asyncio
import dataclasses
import json
import logging
import re
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from openenv.evaluation import play_episodes, summarize
from openenv.policies import BlackjackChartPolicy, CatchPolicy, LanguageModelPolicy, RandomPolicy
from openenv.rl.config import Config, EnvConfig, RewardConfig
from openenv.rl.reports.report import write_report
from openenv.rl.reports.results import PlayerResult, Role, load_results, optimum, result_of, save_results
from openenv.rl.setup import OnProgress, TrainingRun, setup_training

if TYPE_CHECKING:
    from openenv.rl.rollouts.rewards import Reward
    from openenv.rl.rollouts.trajectory import Trajectory

log = logging.getLogger(__name__)

_CHARTS = {"blackjack": BlackjackChartPolicy, "catch": CatchPolicy}
_NUM_RECORDED_GAMES = 6
_FIRST_RECORDED_GROUP = 700_000_000  # far from the groups of training


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


def with_game(config: Config, game: str) -> Config:
    """The same configuration for another game of the environment. The run is named after the game.

    Rewards by outcome belong to the game of the file: another game has its own returns as rewards.
    """
    env = dataclasses.replace(config.env, reset={**config.env.reset, "game_name": game})
    reward = config.reward if env == config.env else _without_outcomes(config.reward)
    return dataclasses.replace(config, name=game, env=env, reward=reward)


def with_environment(config: Config, name: str) -> Config:
    """The same configuration for another environment, by any name of `env.name`. The run is named after it.

    What belongs to the environment of the file goes: its server, text interface, reset keywords, rewards by outcome.
    """
    reward = _without_outcomes(config.reward)
    words = re.sub(r"[^\w.-]+", "_", name).strip("._") or "run"
    return dataclasses.replace(config, name=words, env=EnvConfig(name=name), reward=reward)


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
    training = await setup_training(config, reward=reward, resume=resume, on_progress=on_progress)
    comparison = _Comparison(training, on_progress)
    try:
        with training.engine.budget.counting():
            await comparison.baselines()
        steps_left = config.trainer.training.steps - training.engine.progress.step
        if steps_left > 0:
            await training.run(steps_left)
        await comparison.trained_model()
    finally:
        await training.shutdown()
        report = write_report(config.run_dir)
    return RunResult(
        run_dir=config.run_dir, report=report, results=load_results(config.run_dir), steps=training.engine.progress.step
    )


class _Comparison:
    """Plays the evaluation games of every player. A resumed run keeps the results from before training."""

    def __init__(self, training: TrainingRun, on_progress: OnProgress | None) -> None:
        self._training = training
        self._on_progress = on_progress
        self._results = [row for row in load_results(training.config.run_dir) if row.role in ("baseline", "before")]

    @property
    def _game(self) -> str:
        return str(self._training.config.env.reset.get("game_name", ""))

    async def baselines(self) -> None:
        """Evaluate random play, the chart if there is one, and the model before GRPO, which samples its replies."""
        known = {row.name for row in self._results}
        config = self._training.config
        random_play = RandomPolicy(config.seed, text=self._training.engine.text)
        players: list[tuple[str, Role, Any]] = [("random", "baseline", random_play)]
        if self._game in _CHARTS and not config.env.reset.get("game_params"):
            chart = _CHARTS[self._game]()
            players.append((chart.name, "baseline", chart))
        players.append(("before GRPO (sampled)", "before", self._model(temperature=1.0, before=True)))
        for name, role, policy in players:
            if name not in known:
                await self._evaluate(name, role, policy)

    async def trained_model(self) -> None:
        """Evaluate the model after GRPO, add optimal play, and record a few games."""
        temperature = self._training.config.evaluation.temperature
        name = f"after GRPO ({'sampled' if temperature else 'greedy'})"
        await self._evaluate(name, "after", self._model(temperature=temperature, before=False))
        best = self._optimum()
        self._save([*self._results, *([best] if best else [])])
        await self._save_games()

    def _optimum(self) -> PlayerResult | None:
        """The result of optimal play. It is known for default game parameters and random opponents."""
        config = self._training.config.env
        is_known = config.name == "openspiel" and not config.server_url and not config.reset.get("game_params")
        if not is_known or config.reset.get("opponent_policy", "random") != "random":
            return None
        return optimum(self._game, config.reset.get("agent_player", 0))

    def _model(self, *, temperature: float, before: bool) -> LanguageModelPolicy:
        generator = self._training.engine.player(temperature=temperature, before=before)
        config = self._training.config
        return LanguageModelPolicy(
            "model",
            self._training.engine.text,
            generator.complete,
            instructions=config.model.instructions,
            tools=generator.chat.tools,
            history=config.conversation.history,
            rules=config.conversation.rules,
            fits=generator.chat.fits(config.max_req_tokens),
        )

    async def _evaluate(self, name: str, role: Role, policy: Any) -> None:
        evaluation, report = self._training.config.evaluation, self._on_progress
        async with self._training.pool(min(evaluation.sessions, evaluation.num_games)) as pool:
            episodes = await play_episodes(
                pool,
                policy,
                evaluation.num_games,
                evaluation.seed,
                reset_kwargs=self._training.config.env.reset,
                text=self._training.engine.text,
                max_steps=self._training.config.conversation.max_turns,
                on_progress=None if report is None else lambda done, total: report(f"evaluate {name}", done, total, {}),
            )
        self._save([*self._results, result_of(summarize(name, episodes), name, role)])

    def _save(self, results: list[PlayerResult]) -> None:
        self._results = results
        save_results(self._training.config.run_dir, results)

    async def _save_games(self) -> None:
        """Write games of the model before and after GRPO with equal deals to `games.json`."""
        before = await self._recorded_games(temperature=1.0, before=True)
        after = await self._recorded_games(temperature=self._training.config.evaluation.temperature, before=False)
        pairs = zip(before, after, strict=True)
        games = [{"seed": b.seed, "before": _readable(b), "after": _readable(a)} for b, a in pairs]
        (self._training.config.run_dir / "games.json").write_text(json.dumps(games, indent=1), encoding="utf-8")

    async def _recorded_games(self, *, temperature: float, before: bool) -> "Sequence[Trajectory]":
        generator = self._training.engine.player(temperature=temperature, before=before)
        with ThreadPoolExecutor(1) as executor:
            async with self._training.pool(_NUM_RECORDED_GAMES) as pool:
                rollout = self._training.engine.rollout(pool, generator=generator, executor=executor)
                groups = await rollout.play([_FIRST_RECORDED_GROUP + number for number in range(_NUM_RECORDED_GAMES)])
        return [group.trajectories[0] for group in groups]


def _readable(trajectory: "Trajectory") -> dict[str, Any]:
    return {
        "turns": [(turn.seen, turn.reply) for turn in trajectory.turns],
        "outcome": trajectory.outcome,
        "return": trajectory.game_return,
        "reason": trajectory.reason,
    }


def run_blocking(config: Config, *, resume: bool = False, on_progress: OnProgress | None = None) -> RunResult:
    """`run` for a program without an event loop. After Ctrl-C it writes the report and raises KeyboardInterrupt."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run(config, resume=resume, on_progress=on_progress))
