"""Signs that a policy has stopped learning for good, each named within a few steps, with its cause and the setting.

They are read from the rows of `metrics.jsonl` alone, so that a resumed run sees what the run saw before.
"""

import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from openenv.core.errors import OpenEnvError
from openenv.rl.algorithm.learning_signal import legal_reply_remedy
from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import Config

WINDOW, _LONG_WINDOW = 8, 10
"""Steps in a row that show a sign before it is named. The tiny model stands in 97 % of its hands for five steps of the
demo, and then learns when to hit."""
_FIRST = 3
"""Steps whose means stand for the beginning of the run."""
_ALL = 0.99
_SAME_ACTION, _MOSTLY_SAME_ACTION = 0.97, 0.9
_LITTLE_INFORMATION, _NOISE = 0.01, 0.03  # nats; of one step of some 250 decisions
_IMPROVED = 0.5  # standard deviations of returns in random play, in which rewards are counted


class Collapsed(OpenEnvError):
    """The policy has collapsed, and `on_collapse` is stop. The message names the cause and the setting."""


def look_metrics(groups: Sequence[Group]) -> dict[str, float | None]:
    """How much the actions of a step depend on what the policy sees. None without a legal action.

    `mutual_information`: of situation and action, in nats, without the bias of a finite sample (Miller 1955); the
    situation is that of the text interface, or the whole description. `top_action_share`: the share of the action that
    was taken most often. `num_situations`: different situations.
    """
    counts = Counter(
        (turn.situation or turn.seen, turn.action)
        for group in groups
        for trajectory in group.valid
        for turn in trajectory.turns
        if turn.action is not None
    )
    situations, actions = _marginal(counts, 0), _marginal(counts, 1)
    total = counts.total()
    if not total:
        return {"mutual_information": None, "top_action_share": None, "num_situations": None}
    information = _entropy(situations) + _entropy(actions) - _entropy(counts)
    bias = (len(situations) - 1) * (len(actions) - 1) / (2 * total)
    return {
        "mutual_information": max(0.0, information - bias),
        "top_action_share": max(actions.values()) / total,
        "num_situations": float(len(situations)),
    }


def _marginal(counts: Counter[tuple[Any, Any]], part: int) -> Counter[Any]:
    sums: Counter[Any] = Counter()
    for pair, count in counts.items():
        sums[pair[part]] += count
    return sums


def _entropy(counts: Counter[Any]) -> float:
    total = counts.total()
    return -sum(count / total * math.log(count / total) for count in counts.values())


@dataclass(frozen=True, slots=True)
class Sign:
    """One sign of a collapse."""

    name: str
    """As `metrics.jsonl` has it under `collapse`."""
    is_shown: Callable[[Mapping[str, Any], Mapping[str, float]], bool]
    """Whether a row shows it. The second argument has the means of the first rows."""
    remedy: Callable[[Config], str]
    """The cause, and what to change."""
    window: int = WINDOW
    """Steps in a row that show it before it is named."""
    falls: bool = False
    """Whether the entropy has to fall meanwhile: the demo's rises again, and it learns."""


def _no_legal_reply(row: Mapping[str, Any], first: Mapping[str, float]) -> bool:
    return _value(row, "episodes/unparseable_ratio", 0.0) >= _ALL


def _one_action(row: Mapping[str, Any], first: Mapping[str, float]) -> bool:
    """The policy takes one action whatever it sees. It may still be better than at the beginning: always to stand is
    better than to play blackjack at random."""
    return _does_not_look(row, _SAME_ACTION, _LITTLE_INFORMATION)


def _mostly_one_action(row: Mapping[str, Any], first: Mapping[str, float]) -> bool:
    """The same on the way there. Its window is longer: a policy that the floor of the entropy holds swings back."""
    return _does_not_look(row, _MOSTLY_SAME_ACTION, _NOISE)


def _does_not_look(row: Mapping[str, Any], share: float, information: float) -> bool:
    looks = _value(row, "mutual_information", 1.0) > information
    same = _value(row, "top_action_share", 0.0) >= share
    return same and not looks and _value(row, "num_situations", 0.0) >= 2


def _no_entropy(row: Mapping[str, Any], first: Mapping[str, float]) -> bool:
    """All episodes of a start end alike because the policy tries nothing, and it is no better than at the beginning."""
    is_low = _value(row, "entropy", 1.0) < 0.1 * first.get("entropy", 0.0)
    return is_low and _value(row, "frac_reward_zero_std", 0.0) >= 0.95 and not _has_improved(row, first)


def _too_far(row: Mapping[str, Any], first: Mapping[str, float]) -> bool:
    """Each step changes the policy by more than any trust region allows."""
    return max(_value(row, "step_kl", 0.0), _value(row, "mismatch_kl", 0.0)) > 0.5


def _has_improved(row: Mapping[str, Any], first: Mapping[str, float]) -> bool:
    return _value(row, "reward", 0.0) > first.get("reward", 0.0) + _IMPROVED


def _value(row: Mapping[str, Any], key: str, otherwise: float) -> float:
    value = row.get(key)
    return otherwise if value is None else float(value)


def _hold_entropy(config: Config) -> str:
    floor = config.loss.entropy_floor
    if floor and config.sampling.constrain:
        return f"raise loss.entropy_floor={floor:g}, or lower trainer.kl_target={config.trainer.kl_target}"
    return "set sampling.constrain: true with loss.entropy_floor: 0.9, and trainer.kl_target: 0.02"


def _look(config: Config) -> str:
    return (
        f"the policy takes one action whatever it sees (mutual information 0). Where others can be better, "
        f"{_hold_entropy(config)}, so that it tries them until it has learned when."
    )


def _shorten(config: Config) -> str:
    target = config.trainer.kl_target
    if target is None:
        return f"set trainer.kl_target: 0.02, or lower trainer.optimizer.lr={config.trainer.optimizer.lr:g}"
    return f"lower trainer.kl_target={target:g}"


SIGNS = (
    Sign(
        "no legal reply",
        _no_legal_reply,
        lambda config: f"no reply names a legal action: {legal_reply_remedy(config)}.",
    ),
    Sign("one action", _one_action, _look),
    Sign("one action", _mostly_one_action, _look, _LONG_WINDOW, falls=True),
    Sign(
        "entropy",
        _no_entropy,
        lambda config: f"the policy tries nothing new, and has not become better: {_hold_entropy(config)}.",
    ),
    Sign(
        "step too large",
        _too_far,
        lambda config: f"the policy changes by more than 0.5 nats a token in a step: {_shorten(config)}.",
    ),
)


class CollapseWatch:
    """Follows the rows of a run. `sign` is what the latest rows show; a warning comes when it first appears."""

    def __init__(self, config: Config) -> None:
        self._config = config
        self._first: list[Mapping[str, Any]] = []
        self._latest: list[Mapping[str, Any]] = []
        self._warned: set[str] = set()
        self.sign: Sign | None = None
        """What the last rows all show, as many as its window has."""

    @property
    def remedy(self) -> str:
        """The cause of the sign, and what to change."""
        assert self.sign is not None
        return self.sign.remedy(self._config)

    def add(self, row: Mapping[str, Any]) -> str | None:
        """Add the next step. Returns a warning when a sign appears for the first time."""
        if len(self._first) < _FIRST:
            self._first.append(row)
        if row.get("rolled_back"):  # the next row is of an earlier policy
            self._latest, self.sign = [], None
            self._warned.clear()
            return None
        self._latest = [*self._latest, row][-_LONG_WINDOW:]
        self.sign = self._shown()
        if self.sign is None or self.sign.name in self._warned:
            return None
        self._warned.add(self.sign.name)
        return f"the policy has collapsed ({self.sign.name}): {self.remedy}"

    @property
    def has_learned_nothing(self) -> bool:
        """Whether the policy has collapsed without having become better."""
        return self.sign is not None and not _has_improved(self._latest[-1], self._first_means())

    @property
    def is_clear(self) -> bool:
        """Whether the latest row shows no sign at all. What only a fall makes a sign is none in one row."""
        means = self._first_means()
        shown = (sign.is_shown(self._latest[-1], means) for sign in SIGNS if not sign.falls)
        return bool(self._latest) and not any(shown)

    def _shown(self) -> Sign | None:
        means = self._first_means()
        return next((sign for sign in SIGNS if self._is_shown(sign, means)), None)

    def _is_shown(self, sign: Sign, means: Mapping[str, float]) -> bool:
        rows = self._latest[-sign.window :]
        if len(rows) < sign.window or not all(sign.is_shown(row, means) for row in rows):
            return False
        return not sign.falls or _value(rows[-1], "entropy", 0.0) < _value(rows[0], "entropy", 0.0)

    def _first_means(self) -> dict[str, float]:
        means = {key: _mean(self._first, key) for key in ("entropy", "reward")}
        return {key: value for key, value in means.items() if value is not None}


def _mean(rows: Sequence[Mapping[str, Any]], key: str) -> float | None:
    values = [row[key] for row in rows if row.get(key) is not None]
    return statistics.fmean(values) if values else None
