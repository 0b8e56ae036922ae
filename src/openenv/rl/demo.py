"""A whole run with its comparison: baselines, the model before and after GRPO, the optimum, and the report."""

import asyncio
import dataclasses
import json
import logging
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import uvloop

from openenv.evaluation import play_episodes, summarize
from openenv.policies import BlackjackChartPolicy, CatchPolicy, LanguageModelPolicy, RandomReplyPolicy
from openenv.rl.config import Config
from openenv.rl.report import write_report
from openenv.rl.results import Result, Role, load_results, optimum, result_of, save_results
from openenv.rl.setup import OnProgress, TrainingRun, setup_training

if TYPE_CHECKING:
    from openenv.rl.reward import Reward
    from openenv.rl.trajectory import Trajectory

log = logging.getLogger(__name__)

_CHARTS = {"blackjack": BlackjackChartPolicy, "catch": CatchPolicy}
_NUM_GAMES_SHOWN = 6
_FIRST_SHOWN_GROUP = 700_000_000  # far from the groups of training


@dataclass(frozen=True, kw_only=True)
class DemoResult:
    """What `run_demo` made."""

    run_dir: Path
    """The run's folder."""
    report: Path
    """The page to open."""
    results: list[Result]
    """The rows of the table, in the order in which they are shown."""
    steps: int
    """Optimizer steps made."""


def with_game(config: Config, game: str) -> Config:
    """The same run on another game of the environment; the run is named after the game."""
    env = dataclasses.replace(config.env, reset={**config.env.reset, "game_name": game})
    return dataclasses.replace(config, name=game, env=env)


async def run_demo(
    config: Config, *, reward: "Reward | None" = None, resume: bool = False, on_progress: OnProgress | None = None
) -> DemoResult:
    """Evaluate the baselines and the model, train it, evaluate it again, and write the report.

    The report is written in any case: when the run is cancelled or fails it shows what was made by then.
    """
    run = await setup_training(config, reward=reward, resume=resume, on_progress=on_progress)
    comparison = _Comparison(run, on_progress)
    try:
        await comparison.baselines()
        steps_left = config.trainer.training.steps - run.engine.progress.step
        if steps_left > 0:
            await run.run(steps_left)
        await comparison.trained_model()
    finally:
        await run.shutdown()
        report = write_report(config.run_dir)
    return DemoResult(
        run_dir=config.run_dir, report=report, results=load_results(config.run_dir), steps=run.engine.progress.step
    )


class _Comparison:
    """Plays the evaluation games of every row; rows of an earlier part of a resumed run are kept."""

    def __init__(self, run: TrainingRun, on_progress: OnProgress | None) -> None:
        self._run = run
        self._on_progress = on_progress
        self._results = [row for row in load_results(run.config.run_dir) if row.role in ("baseline", "before")]

    @property
    def _game(self) -> str:
        return str(self._run.config.env.reset.get("game_name", ""))

    async def baselines(self) -> None:
        """Random play, the chart where there is one, and the model before GRPO, which samples its replies."""
        known = {row.name for row in self._results}
        config = self._run.config
        random_play = RandomReplyPolicy(self._run.engine.text, config.seed)
        players: list[tuple[str, Role, Any]] = [("random", "baseline", random_play)]
        if self._game in _CHARTS and not config.env.reset.get("game_params"):
            chart = _CHARTS[self._game]()
            players.append((chart.name, "baseline", chart))
        players.append(("before GRPO (sampled)", "before", self._model(temperature=1.0, before=True)))
        for name, role, policy in players:
            if name not in known:
                await self._evaluate(name, role, policy)

    async def trained_model(self) -> None:
        """The model after GRPO, the optimum, and the games to read."""
        temperature = self._run.config.evaluation.temperature
        name = f"after GRPO ({'sampled' if temperature else 'greedy'})"
        await self._evaluate(name, "after", self._model(temperature=temperature, before=False))
        best = self._optimum()
        self._save([*self._results, *([best] if best else [])])
        await self._save_games()

    def _optimum(self) -> Result | None:
        """The best possible play, where it is known: for OpenSpiel's default parameters and random opponents."""
        config = self._run.config.env
        is_known = config.name == "openspiel" and not config.server_url and not config.reset.get("game_params")
        if not is_known or config.reset.get("opponent_policy", "random") != "random":
            return None
        return optimum(self._game, config.reset.get("agent_player", 0))

    def _model(self, *, temperature: float, before: bool) -> LanguageModelPolicy:
        generator = self._run.engine.player(temperature=temperature, before=before)
        instructions = self._run.config.model.instructions
        return LanguageModelPolicy("model", self._run.engine.text, generator.complete, instructions=instructions)

    async def _evaluate(self, name: str, role: Role, policy: Any) -> None:
        evaluation, tell = self._run.config.evaluation, self._on_progress
        async with self._run.pool(min(evaluation.sessions, evaluation.num_games)) as pool:
            episodes = await play_episodes(
                pool,
                policy,
                evaluation.num_games,
                evaluation.seed,
                reset_kwargs=self._run.config.env.reset,
                text=self._run.engine.text,
                on_progress=None if tell is None else lambda done, total: tell(f"evaluate {name}", done, total, {}),
            )
        self._save([*self._results, result_of(summarize(name, episodes), name, role)])

    def _save(self, results: list[Result]) -> None:
        self._results = results
        save_results(self._run.config.run_dir, results)

    async def _save_games(self) -> None:
        """The same deals played by the model before and after GRPO, as `games.json`."""
        before = await self._shown_games(temperature=1.0, before=True)
        after = await self._shown_games(temperature=self._run.config.evaluation.temperature, before=False)
        pairs = zip(before, after, strict=True)
        games = [{"seed": b.seed, "before": _readable(b), "after": _readable(a)} for b, a in pairs]
        (self._run.config.run_dir / "games.json").write_text(json.dumps(games, indent=1), encoding="utf-8")

    async def _shown_games(self, *, temperature: float, before: bool) -> "Sequence[Trajectory]":
        generator = self._run.engine.player(temperature=temperature, before=before)
        with ThreadPoolExecutor(1) as executor:
            async with self._run.pool(_NUM_GAMES_SHOWN) as pool:
                rollout = self._run.engine.rollout(pool, generator=generator, executor=executor)
                groups = await rollout.play([_FIRST_SHOWN_GROUP + number for number in range(_NUM_GAMES_SHOWN)])
        return [group.trajectories[0] for group in groups]


def _readable(trajectory: "Trajectory") -> dict[str, Any]:
    return {
        "turns": [(turn.seen, turn.reply) for turn in trajectory.turns],
        "outcome": trajectory.outcome,
        "return": trajectory.game_return,
        "reason": trajectory.reason,
    }


def run_demo_blocking(config: Config, *, resume: bool = False, on_progress: OnProgress | None = None) -> DemoResult:
    """`run_demo` for a program without an event loop. Ctrl-C ends it cleanly: the report is written, then
    KeyboardInterrupt is raised."""
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        return runner.run(run_demo(config, resume=resume, on_progress=on_progress))
