"""Evaluates a run: baselines and the model before and after GRPO, in each environment, and records a few games."""

import logging
import math
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from typing import TYPE_CHECKING, Any, Literal

from openenv.envs.catalog import entry_of
from openenv.evaluation import summarize
from openenv.evaluation.intervals import EpisodeResult
from openenv.formats.json_text import json_text
from openenv.policies import LanguageModelPolicy, RandomPolicy, make_policy
from openenv.rl.budget import AFTER_SHARE, BEFORE_SHARE
from openenv.rl.evaluation.games import AgentPolicy, evaluation_keywords, model_policy, play_games, with_recovery
from openenv.rl.progress import OnProgress
from openenv.rl.reports.results import PlayerResult, Role, load_results, optimum_row, result_of, save_results
from openenv.rl.setup import TrainingRun

if TYPE_CHECKING:
    from openenv.rl.algorithm.trajectory import Trajectory
    from openenv.rl.generators.base import BaseGenerator

log = logging.getLogger(__name__)

_NUM_RECORDED_GAMES = 6
_FIRST_GAMES = 8
"""Games that are begun first where time is limited. Games of long replies take minutes, and are not cut short."""
_MODEL_SHARES: dict[Role, float] = {"before": BEFORE_SHARE, "after": AFTER_SHARE}
"""Of `max_minutes`, after which no further games of the model begin in an environment."""
_FIRST_RECORDED_GROUP = 700_000_000  # far from the groups of training


class Comparison:
    """Plays the evaluation games of every player. A resumed run keeps the results from before training.

    With several environments the names of the players begin with the environment's.
    """

    def __init__(self, training: TrainingRun, on_progress: OnProgress | None) -> None:
        self._training = training
        self._config = training.config
        self._on_progress = on_progress
        self._results = [row for row in load_results(training.config.run_dir) if row.role in ("baseline", "before")]

    async def baselines(self) -> None:
        """Evaluate random play, the chart if there is one, and the model before GRPO, which samples its replies.

        Where time is limited, the model plays as many games as a share of it allows.
        """
        known = {row.name for row in self._results}
        before = self._training.engine.player(temperature=1.0, before=True, alone=True)
        for number, environment in enumerate(self._training.engine.environments):
            players: list[tuple[str, Role, Any]] = [
                ("random", "baseline", RandomPolicy(self._config.seed, text=environment.served.text)),
                *self._charts(number),
                ("before GRPO (sampled)", "before", self._model(number, before)),
            ]
            for name, role, policy in players:
                if self._name(number, name) not in known:
                    await self._evaluate(number, name, role, policy)

    async def trained_model(self) -> None:
        """Evaluate the model after GRPO, add optimal play, and record a few games."""
        temperature = self._config.evaluation.temperature
        name = f"after GRPO ({'sampled' if temperature else 'greedy'})"
        after = self._training.engine.player(temperature=temperature, alone=True)
        for number in range(len(self._config.env)):
            await self._evaluate(number, name, "after", self._model(number, after))
            for best in self._optimum(number):
                self._keep(number, "optimum", best)
        await self._save_games(after)

    def _name(self, number: int, player: str) -> str:
        return player if len(self._config.env) == 1 else f"{self._training.engine.environments[number].label}: {player}"

    def _keywords(self, number: int) -> dict[str, Any]:
        return dict(evaluation_keywords(self._config.env[number]))

    def _charts(self, number: int) -> list[tuple[str, Role, Any]]:
        name = self._declared(number, "baseline")
        return [] if name is None else [(name, "baseline", make_policy(name, seed=self._config.seed))]

    def _optimum(self, number: int) -> list[PlayerResult]:
        """The result of optimal play. A server that runs already may have other defaults."""
        best = None if self._config.env[number].server_url else self._declared(number, "optimum")
        return [] if best is None else [optimum_row(best, self._name(number, "optimum"))]

    def _declared(self, number: int, kind: Literal["baseline", "optimum"]) -> Any:
        """What the environment declares for the keywords of its evaluation games."""
        entry = entry_of(self._training.engine.environments[number].served.observation_class)
        if entry is None:
            return None
        load = entry.load_baseline if kind == "baseline" else entry.load_optimum
        return load(self._keywords(number))

    def _model(self, number: int, generator: "BaseGenerator") -> LanguageModelPolicy | AgentPolicy:
        generator.seed(self._config.seed)
        return model_policy(self._config, self._training.engine.environments[number], generator)

    async def _evaluate(self, number: int, player: str, role: Role, policy: Any) -> None:
        evaluation, report, name = self._config.evaluation, self._on_progress, self._name(number, player)
        budget, episodes = self._training.engine.budget, list[EpisodeResult]()
        deadline_s = budget.deadline_s(_MODEL_SHARES.get(role, math.inf))
        at_once = min(evaluation.sessions, evaluation.num_games)
        num_next = evaluation.num_games if math.isinf(deadline_s) else _FIRST_GAMES

        def on_progress(done: int, total: int) -> None:
            if report is not None:
                report(f"evaluate {name}", len(episodes) + done, evaluation.num_games, {})

        async with self._training.engine.pool(number, at_once) as pool:
            while len(episodes) < evaluation.num_games and (not episodes or budget.spent_s < deadline_s):
                episodes += await play_games(
                    pool,
                    policy,
                    min(num_next, evaluation.num_games - len(episodes)),
                    evaluation.seed + len(episodes),
                    config=self._config,
                    environment=self._training.engine.environments[number],
                    on_progress=on_progress,
                    recovering=self._training.engine,
                )
                num_next = min(2 * num_next, at_once)
        if len(episodes) < evaluation.num_games:
            log.info("%s played %d of %d games in its share of max_minutes", name, len(episodes), evaluation.num_games)
        result = result_of(summarize(name, episodes), name, role)
        self._keep(number, role if role in ("before", "after") else player, result)

    def _keep(self, number: int, player: str, result: PlayerResult) -> None:
        """Add a result to the table, and send it to the trackers under the player's name there."""
        self._results = [*self._results, result]
        save_results(self._config.run_dir, self._results)
        label = "" if len(self._config.env) == 1 else f"{self._training.engine.environments[number].label}/"
        self._training.training_log.add_evaluation(f"{label}{player}", result, self._training.engine.progress.step)

    async def _save_games(self, trained: "BaseGenerator") -> None:
        """Write games of the model before and after GRPO with equal deals to `games.json`."""
        before = await self._recorded_games(self._training.engine.player(temperature=1.0, before=True))
        after = await self._recorded_games(trained)
        pairs = zip(before, after, strict=True)
        games = [{"seed": b.seed, "before": _readable(b), "after": _readable(a)} for b, a in pairs]
        (self._config.run_dir / "games.json").write_text(json_text(games, indent=1), encoding="utf-8")

    async def _recorded_games(self, generator: "BaseGenerator") -> "Sequence[Trajectory]":
        """Games of each environment, about as many in all as a report shows."""
        games = -(-_NUM_RECORDED_GAMES // len(self._config.env))
        indices = range(_FIRST_RECORDED_GROUP, _FIRST_RECORDED_GROUP + games)
        recorded: list[Trajectory] = []
        with ThreadPoolExecutor(1) as executor:
            for number in range(len(self._config.env)):
                async with self._training.engine.pool(number, games) as pool:
                    rollout = self._training.engine.rollout(pool, number, generator=generator, executor=executor)
                    play = partial(rollout.play, indices, self._keywords(number))
                    groups = await with_recovery(self._training.engine, play)
                recorded += [group.trajectories[0] for group in groups]
        return recorded


def _readable(trajectory: "Trajectory") -> dict[str, Any]:
    return {
        "turns": [(turn.seen, turn.reply) for turn in trajectory.turns],
        "outcome": trajectory.outcome,
        "return": trajectory.game_return,
        "reason": trajectory.reason,
    }
