"""Signals of reward hacking: what the replies of a step look like, and a warning when that drifts while reward rises.

A policy that exploits a flaw of a reward often shows it in its replies before anything else: they become much longer or
shorter, they no longer end, they repeat themselves, or they name no action. That all become the same is no sign: so do
those of a policy that has learned a task.
"""

import statistics
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Any

from openenv.rl.algorithm.trajectory import Group

WINDOW = 10
"""Steps whose means are compared: the first ones of the run, and the latest."""
NGRAM = 3
"""Length, in tokens, of the n-grams whose repetition is measured."""


def completion_metrics(groups: Sequence[Group], end_ids: Set[int]) -> dict[str, float | None]:
    """Metrics of the replies in valid episodes, with the names of TRL's GRPOTrainer. None without a reply.

    A completion is one reply, its end token included. It is clipped if its last token is none of `end_ids`, and
    terminated otherwise. `completions/repetition` is the mean of `repetition` over the replies that have one.
    """
    valid = [trajectory for group in groups for trajectory in group.valid]
    replies = [reply for trajectory in valid for segment in trajectory.segments for reply in segment.replies]
    lengths = [len(reply) for reply in replies]
    terminated = [len(reply) for reply in replies if reply[-1] in end_ids]
    repeated = [share for share in map(repetition, replies) if share is not None]
    unparseable = sum(trajectory.outcome == "unparseable" for trajectory in valid)
    return {
        "completions/mean_length": _mean(lengths),
        "completions/min_length": min(lengths, default=None),
        "completions/max_length": max(lengths, default=None),
        "completions/clipped_ratio": 1 - len(terminated) / len(lengths) if lengths else None,
        "completions/mean_terminated_length": _mean(terminated),
        "completions/min_terminated_length": min(terminated, default=None),
        "completions/max_terminated_length": max(terminated, default=None),
        "completions/repetition": _mean(repeated),
        "episodes/unparseable_ratio": unparseable / len(valid) if valid else None,
    }


def repetition(token_ids: Sequence[int]) -> float | None:
    """The share of n-grams that occurred before in the reply: 1 - (number of different n-grams) / (number of n-grams).

    0 if all differ, almost 1 for one token over and over. None for fewer than NGRAM tokens, which have no n-gram.
    """
    number = len(token_ids) - NGRAM + 1
    if number < 1:
        return None
    return 1 - len(set(zip(*(token_ids[start:] for start in range(NGRAM)), strict=False))) / number


def _mean(values: Iterable[float]) -> float | None:
    known = list(values)
    return statistics.fmean(known) if known else None


@dataclass(frozen=True, slots=True)
class _Signal:
    """A metric whose drift is a sign of reward hacking."""

    key: str
    has_drifted: Callable[[float, float], bool]
    """From the means of the first and of the latest steps."""


def _doubled_or_halved(first: float, latest: float) -> bool:
    return latest >= 2 * first or latest <= first / 2


def _grown_by_a_fifth(first: float, latest: float) -> bool:
    """For a share, from 0 to 1."""
    return latest >= first + 0.2


_SIGNALS = (
    _Signal("completions/mean_length", _doubled_or_halved),
    _Signal("completions/clipped_ratio", _grown_by_a_fifth),
    _Signal("completions/repetition", _grown_by_a_fifth),
    _Signal("episodes/unparseable_ratio", _grown_by_a_fifth),
)


class DriftWatch:
    """Compares the latest steps of a run with its first ones, and warns once for each signal that has drifted.

    Both are means over WINDOW steps, and the warning comes only if the reward has risen meanwhile: by more than the
    standard deviation of the reward over the first WINDOW steps. A drift without a higher reward is no exploit.
    """

    def __init__(self) -> None:
        self._first: list[Mapping[str, Any]] = []
        self._latest: list[Mapping[str, Any]] = []
        self._warned: set[str] = set()

    def add(self, row: Mapping[str, Any]) -> str | None:
        """Add the metrics of the next step. Returns a warning, or None."""
        if len(self._first) < WINDOW:
            self._first.append(row)
            return None
        self._latest = [*self._latest, row][-WINDOW:]
        reward = self._means("reward")
        if len(self._latest) < WINDOW or reward is None or reward[1] - reward[0] <= self._first_deviation():
            return None
        drifts = {signal.key: ends for signal in _SIGNALS if (ends := self._drift(signal)) is not None}
        self._warned |= set(drifts)
        return _warning({"reward": reward, **drifts}) if drifts else None

    def _first_deviation(self) -> float:
        """Standard deviation of the reward over the first steps."""
        return statistics.pstdev(float(row["reward"]) for row in self._first if row.get("reward") is not None)

    def _drift(self, signal: _Signal) -> tuple[float, float] | None:
        """The means of a signal that has drifted and was not warned of before."""
        means = self._means(signal.key)
        is_new = signal.key not in self._warned
        return means if is_new and means is not None and signal.has_drifted(*means) else None

    def _means(self, key: str) -> tuple[float, float] | None:
        """The means over the first and over the latest steps. None where no step has the metric."""
        first, latest = _mean_of(self._first, key), _mean_of(self._latest, key)
        return None if first is None or latest is None else (first, latest)


def _warning(means: Mapping[str, tuple[float, float]]) -> str:
    """means: of the reward, and of each signal that has drifted."""
    reward, *others = (f"{key} from {first:.3g} to {latest:.3g}" for key, (first, latest) in means.items())
    return (
        f"{reward} rose while the replies changed: {', '.join(others)} (means of the first and of the latest {WINDOW} "
        "steps). The policy may exploit the reward: read transcripts.jsonl."
    )


def _mean_of(rows: Sequence[Mapping[str, Any]], key: str) -> float | None:
    return _mean(row[key] for row in rows if row.get(key) is not None)
