"""Evaluation while a run trains: the same seeds each time, greedy and sampled, and the best checkpoint so far.

Its games have weights, sessions and random numbers of their own, so a run has the same metrics with and without it.
Their seeds follow those of the evaluations before and after training: the checkpoint is not chosen by games that
measure it later.
"""

import asyncio
import logging
import math
import statistics
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Executor
from contextlib import AbstractAsyncContextManager
from functools import partial
from typing import TYPE_CHECKING

from openenv.evaluation.episodes import EpisodeSessions
from openenv.evaluation.intervals import (
    EpisodeResult,
    Interval,
    mean_and_interval,
    pass_at_k,
    summarize,
    wilson_interval,
)
from openenv.rl.algorithm.curricula import shares
from openenv.rl.config import Config
from openenv.rl.engines.protocol import Recovering
from openenv.rl.evaluation.games import model_policy, play_games
from openenv.rl.reports.best_checkpoint import BestCheckpoint
from openenv.rl.reports.results import MetricsRow

if TYPE_CHECKING:
    from openenv.rl.algorithm.rewards import RandomReturns
    from openenv.rl.engines.training_environment import TrainingEnvironment
    from openenv.rl.generators.base import BaseGenerator

log = logging.getLogger(__name__)


class EvaluationCurve:
    """Evaluates the current weights every `evaluation.interval` steps. The training loop calls it after each step."""

    def __init__(
        self,
        config: Config,
        environments: "Sequence[TrainingEnvironment]",
        *,
        player: "Callable[[], BaseGenerator]",
        pool: Callable[[int, int], AbstractAsyncContextManager[EpisodeSessions]],
        executor: Executor,
        best: BestCheckpoint | None,
        save_best: Callable[[BestCheckpoint], None],
        recovering: Recovering,
        on_progress: Callable[[int, int], None] | None = None,
    ) -> None:
        """What an evaluation needs.

        Args:
            config: That of the run.
            environments: Those of the run.
            player: Makes a generator with the current weights, freshly seeded.
            pool: Opens sessions, given the number of the environment and how many.
            executor: Runs the generator. It is that of the rollouts, which share tokenizer and texts with it.
            best: The best checkpoint of the run that is continued; None: there is none.
            save_best: Saves the current weights as the best checkpoint. Called in a thread.
            recovering: Starts a generator that has ended again.
            on_progress: Called with the number of games of an evaluation that have ended, and that of all.
        """
        self._config = config
        self._settings = config.evaluation
        self._environments = environments
        self._player = player
        self._pool = pool
        self._executor = executor
        self._best = best
        self._save_best = save_best
        self._recovering = recovering
        self._on_progress = on_progress

    async def __call__(self, step: int, is_last: bool) -> MetricsRow:
        """The metrics of an evaluation after a step, which begin with `eval/`; none if no evaluation is due.

        The last step is evaluated too if another one was, so that it can be compared with the best.
        """
        interval = self._settings.interval
        if not interval or (step % interval and not (is_last and step > interval)):
            return {}
        began = time.monotonic()
        row, score = await self._evaluated()
        if score is not None and (self._best is None or score > self._best.score):
            self._best = BestCheckpoint(step=step, score=score, metrics=row)
            await asyncio.to_thread(self._save_best, self._best)
        row |= {"eval/score": score, "eval/time": time.monotonic() - began}
        log.info("evaluated: step=%d score=%s took_s=%.1f", step, score, row["eval/time"])
        return row

    async def _evaluated(self) -> tuple[MetricsRow, float | None]:
        """The metrics of all environments, and the score of the weights; None if an environment has no valid game."""
        generator = self._player()
        row: MetricsRow = {}
        scores: list[float | None] = []
        for number, environment in enumerate(self._environments):
            greedy, sampled = await self._games(number, generator)
            prefix = "eval/" if len(self._environments) == 1 else f"eval/{environment.label}/"
            metrics = {**greedy_metrics(greedy), **sampled_metrics(sampled, self._settings.pass_k)}
            row |= {f"{prefix}{key}": value for key, value in metrics.items()}
            scores.append(score_of(greedy, environment.random_returns))
        weights = shares(self._config.env)
        known = [weight * score for weight, score in zip(weights, scores, strict=True) if score is not None]
        return row, math.fsum(known) if len(known) == len(scores) else None

    async def _games(
        self, number: int, generator: "BaseGenerator"
    ) -> tuple[list[EpisodeResult], list[tuple[EpisodeResult, ...]]]:
        """An environment's games with the most likely replies, and the sampled ones from each of the same seeds."""
        settings, environment = self._settings, self._environments[number]
        rounds: list[list[EpisodeResult]] = []
        async with self._pool(number, min(settings.sessions, settings.interval_games)) as pool:
            for temperature in (0.0, *[1.0] * settings.pass_k):
                generator.temperature = temperature
                rounds.append(
                    await play_games(
                        pool,
                        model_policy(self._config, environment, generator),
                        settings.interval_games,
                        settings.seed + settings.num_games,
                        config=self._config,
                        environment=environment,
                        on_progress=partial(self._report, number, len(rounds)),
                        executor=self._executor,
                        recovering=self._recovering,
                    )
                )
        greedy, *sampled = rounds
        return greedy, list(zip(*sampled, strict=True))

    def _report(self, environment: int, rounds: int, done: int, of_round: int) -> None:
        """Report the games of an evaluation, of which some rounds of some environments have ended."""
        if self._on_progress is not None:
            of_each = 1 + self._settings.pass_k
            ended = (environment * of_each + rounds) * of_round + done
            self._on_progress(ended, len(self._environments) * of_each * of_round)


def greedy_metrics(games: Sequence[EpisodeResult]) -> MetricsRow:
    """Win rate and mean return of games with the most likely replies, as in `Summary`. None for what is not known."""
    summary = summarize("greedy", games)
    return {
        "greedy/win_rate": _known(summary.win_rate),
        "greedy/win_rate_interval": _bounds(summary.win_interval),
        "greedy/return": _known(summary.mean_return),
        "greedy/return_interval": _bounds(summary.return_interval),
        "greedy/unparseable_ratio": summary.num_unparseable / summary.num_episodes if summary.num_episodes else None,
    }


def sampled_metrics(seeds: Sequence[Sequence[EpisodeResult]], k: int) -> MetricsRow:
    """The same of sampled games, and pass@k. seeds: the games from each seed.

    Without a declared success, rates and pass@k are None. Games from one seed resemble each other, so intervals are
    over the seeds. A seed with fewer than k valid games has no part in pass@k.
    """
    valid = [[game for game in games if game.outcome != "invalid"] for games in seeds]
    declares_success = any(game.success_return is not None for games in valid for game in games)
    tried = [games for games in valid if games and declares_success]
    won = [sum(game.outcome == "won" for game in games) for games in tried]
    win_rates = [count / len(games) for count, games in zip(won, tried, strict=True)]
    finished = [
        [total for game in games if game.outcome != "unparseable" and (total := game.total_reward) is not None]
        for games in valid
    ]
    mean, interval = mean_and_interval([statistics.fmean(returns) for returns in finished if returns])
    passed = [pass_at_k(len(games), count, k) for count, games in zip(won, tried, strict=True) if len(games) >= k]
    played = [game for games in valid for game in games]
    unparseable = sum(game.outcome == "unparseable" for game in played)
    return {
        "sampled/win_rate": statistics.fmean(win_rates) if win_rates else None,
        "sampled/win_rate_interval": _bounds(wilson_interval(math.fsum(win_rates), len(win_rates))),
        "sampled/return": _known(mean),
        "sampled/return_interval": _bounds(interval),
        "sampled/unparseable_ratio": unparseable / len(played) if played else None,
        f"pass@{k}": statistics.fmean(passed) if passed else None,
        f"pass@{k}_interval": _bounds(wilson_interval(math.fsum(passed), len(passed))),
    }


def score_of(games: Sequence[EpisodeResult], random_returns: "RandomReturns") -> float | None:
    """The mean return of games in standard deviations of random play; None without a valid game.

    A game that a reply without a legal action ended counts as the worst return in random play, as in training.
    """
    valid = [game for game in games if game.outcome != "invalid"]
    if not valid:
        return None
    worst = random_returns.worst
    mean = statistics.fmean(worst if game.outcome == "unparseable" else game.total_reward or 0.0 for game in valid)
    return mean / (random_returns.deviation or 1.0)


def _known(value: float) -> float | None:
    return value if math.isfinite(value) else None


def _bounds(interval: Interval) -> list[float] | None:
    """An interval as JSON has it; None for an infinite one."""
    return list(interval) if all(map(math.isfinite, interval)) else None
