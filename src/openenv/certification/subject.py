"""What is certified: an environment on a running server, and what is known of good play in it."""

import math
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from random import Random
from typing import Any

from openenv.auto.environment import NamedEnvironment, ServedEnvironment, load_named
from openenv.auto.resolver import resolve
from openenv.core.env_server.types import Action
from openenv.core.errors import OpenEnvError
from openenv.core.utils import run_async_safely
from openenv.envs.catalog import load, read_manifest
from openenv.envs.measured import MeasuredTask
from openenv.evaluation.evaluator import evaluate
from openenv.evaluation.intervals import EpisodeResult, Summary
from openenv.evaluation.policy_player import EpisodeObserver
from openenv.evaluation.quality.target import CheckResult
from openenv.policies.base import Policy
from openenv.policies.baselines import RandomPolicy
from openenv.policies.declared import FunctionPolicy
from openenv.policies.registry import make_policy

Figures = Mapping[str, Any]
"""JSON values by name."""
_MOST_STEPS = 200
_SESSIONS = 8
_ROUNDING = 1e-6
_LONGEST_ACTION = 80
_MISSING = 0.05
_MOST_ENDED = 100


@dataclass(frozen=True, kw_only=True)
class Proof:
    """What one proof has found."""

    name: str
    result: CheckResult
    figures: Figures = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class KnownPlay:
    """What is known of good play."""

    reset: Mapping[str, Any] = field(default_factory=dict)
    """Keywords of every reset: the task of which it is known."""
    play: Callable[[Any, Random], Any] | None = None
    """A good player: an observation and random numbers -> an action."""
    policy: str | None = None
    """Or the name of a good policy."""
    best_return: float | None = None
    """The exact mean return of best play."""
    max_steps: int | None = None

    def player(self) -> Policy | None:
        """The good player, if there is one."""
        if self.play is not None:
            return FunctionPolicy("known good play", self.play, 0)
        return None if self.policy is None else make_policy(self.policy, seed=0)


@dataclass(frozen=True, kw_only=True)
class Score:
    """The episodes of one policy."""

    summary: Summary
    highest: float
    """The highest return of an episode; negative infinity where none had a return."""

    def __str__(self) -> str:
        low, high = self.summary.return_interval
        mean = f"mean return {self.summary.mean_return:+.3g} ± {(high - low) / 2:.2g}"
        if math.isnan(self.summary.mean_return):
            mean = "no return"
        return f"{self.summary.win_rate:.0%} won, {mean}" if self.summary.declares_success else mean

    @property
    def figures(self) -> Figures:
        """The same as JSON values."""
        one, (low, high) = self.summary, self.summary.return_interval
        known = {"episodes": one.num_episodes, "mean_return": one.mean_return, "low": low, "high": high}
        if one.declares_success:
            known["win_rate"] = one.win_rate
        return {name: value if math.isfinite(value) else None for name, value in known.items()}

    def is_above(self, other: "Score") -> bool:
        """Whether its 95 % interval lies above the other's: of the win rate, or of the return without a success."""
        if self.summary.declares_success:
            return self.summary.win_interval[0] > other.summary.win_interval[1]
        return self.summary.return_interval[0] > other.summary.return_interval[1]

    def reaches(self, best: float, random: "Score") -> bool:
        """Whether its mean return is that of best play, which random play does not have.

        The best return has to be in its 95 % interval, and the mean has to be 19 twentieths of the way to it.
        """
        mean, start = self.summary.mean_return, random.summary.mean_return
        if not (math.isfinite(mean) and math.isfinite(start)) or random.summary.return_interval[1] >= best:
            return False
        return self.summary.return_interval[1] >= best - _ROUNDING and mean >= best - _MISSING * (best - start)


@dataclass(frozen=True, kw_only=True)
class Subject:
    """An environment that is certified."""

    named: NamedEnvironment
    served: ServedEnvironment
    known: KnownPlay
    seed: int
    """Of the first episode."""
    proof_s: float = math.inf
    """Seconds that the episodes of one proof may take."""
    episode_s: float = 0.0
    """Seconds that an episode of random play takes, with others at the same time."""

    @property
    def reset(self) -> Mapping[str, Any]:
        """Keywords of every reset."""
        return self.known.reset

    @property
    def max_steps(self) -> int:
        """Steps after which an episode is stopped."""
        return self.known.max_steps or _MOST_STEPS

    def beginnings(self, client: Any, most: int) -> Iterator[tuple[int, Any]]:
        """The first observations of as many episodes with their seeds. Those that end at their reset are left out.

        Raises OpenEnvError if a hundred in a row do.
        """
        found = 0
        for seed in range(self.seed, self.seed + most + _MOST_ENDED):
            result = client.reset(seed=seed, **self.reset)
            if not result.done:
                found += 1
                yield seed, result.observation
            if found == most:
                return
        if not found:
            raise OpenEnvError(f"{_MOST_ENDED} episodes end at their reset: there is nothing to act on")

    def random_policy(self, seed: int = 0) -> RandomPolicy:
        """Random play. Equal seeds give equal choices."""
        return RandomPolicy(seed, text=self.served.text)

    def most_policies(self, wanted: int) -> int:
        """How many policies a proof may try, each in eight episodes: two at least."""
        possible = self.proof_s / (_SESSIONS * self.episode_s) if self.episode_s else wanted
        return int(max(2, min(wanted, possible)))

    def timed(self, proof_s: float) -> "Subject":
        """The same with the time that an episode takes, measured by a few of them. proof_s: that a proof may take."""
        began = time.monotonic()
        self.scores([self.random_policy()], _SESSIONS)
        return replace(self, proof_s=proof_s, episode_s=(time.monotonic() - began) / _SESSIONS)

    def scores(self, policies: Sequence[Policy], episodes: int, *, first: int = 0) -> list[Score]:
        """Play the episodes from the number `first` with each policy. Returns the score of each.

        There are fewer, down to eight, where all of them would take longer than a proof may.
        """
        possible = self.proof_s / (len(policies) * self.episode_s) if self.episode_s else math.inf
        episodes = int(max(_SESSIONS, min(episodes, possible)))
        returns: list[list[float]] = [[] for _ in policies]
        summaries = run_async_safely(
            evaluate(
                self.served.base_url,
                self.served.client,
                policies,
                episodes,
                self.seed + first,
                num_sessions=_SESSIONS,
                reset_kwargs=self.reset,
                text=self.served.text,
                max_steps=self.max_steps,
                observers_for=lambda place, _: [_Returns(returns[place])],
            )
        )
        return [
            Score(summary=summary, highest=max(found, default=-math.inf))
            for summary, found in zip(summaries, returns, strict=True)
        ]


class _Returns(EpisodeObserver):
    """Keeps the returns of the episodes that have one."""

    def __init__(self, returns: list[float]) -> None:
        self._returns = returns

    def on_end(self, episode: int, result: EpisodeResult) -> None:
        if result.total_reward is not None and result.outcome not in ("unparseable", "invalid"):
            self._returns.append(result.total_reward)


def shown_action(action: Any) -> str:
    """An action in a line, for a person: its number, or the fields that are set."""
    is_number = not isinstance(action, Action)
    text = str(action if is_number else action.model_dump(mode="json", exclude={"metadata"}, exclude_none=True))
    return text if len(text) <= _LONGEST_ACTION else f"{text[: _LONGEST_ACTION - 3]}..."


def known_play(named: NamedEnvironment, reset: Mapping[str, Any]) -> KnownPlay:
    """What the environment's manifest declares of good play with these keywords of a reset.

    Without keywords, a bundled environment has those of the first task that its manifest measures. The manifest of a
    folder names functions as FILE.py:FUNCTION, from the folder.

    Raises LookupError for a function that is not there, ValueError for an unknown field of `measured`.
    """
    source = resolve(named.name)
    if source.kind == "folder":
        declared: Mapping[str, Mapping[str, Any]] = read_manifest(source.folder / "openenv.yaml").get("measured") or {}
        tasks = [_of_folder(source.folder, fields) for fields in declared.values()]
    elif named.info is not None and named.info.package == "openenv-rl":
        entry = load(named.info.key)
        tasks = list(entry.load_measured().values())
        if not any(dict(task.reset) == dict(reset) for task in tasks) and (reset or not tasks):
            best, policy = entry.load_optimum(reset), entry.load_baseline(reset)
            return KnownPlay(reset=reset, policy=policy, best_return=None if best is None else best.mean_return)
    else:
        tasks = []
    found = next((task for task in tasks if not reset or dict(task.reset) == dict(reset)), None)
    if found is None:
        return KnownPlay(reset=reset)
    return KnownPlay(reset=found.reset, play=found.heuristic, best_return=found.best_return, max_steps=found.max_steps)


def _of_folder(folder: Path, fields: Mapping[str, Any]) -> MeasuredTask:
    name = fields.get("heuristic")
    play = None if name is None else load_named(str(folder / name), "measured.heuristic", "FUNCTION")
    try:
        return MeasuredTask(**{**fields, "heuristic": play})
    except TypeError as error:
        raise ValueError(f"{folder / 'openenv.yaml'}: measured: {error}") from error
