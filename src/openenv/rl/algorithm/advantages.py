"""Advantages: how much better each episode of a group was than the others."""

import statistics
from collections.abc import Callable, Sequence

from openenv.rl.algorithm.trajectory import Group
from openenv.rl.config import AdvantageName

Estimator = Callable[[Sequence[float]], list[float]]

_EPSILON = 1e-4


def grpo(rewards: Sequence[float]) -> list[float]:
    """(r - mean) / (std + 1e-4) with the sample standard deviation, arXiv:2402.03300. Raises ValueError below two."""
    centred = dr_grpo(rewards)
    scale = statistics.stdev(rewards) + _EPSILON
    return [value / scale for value in centred]


def dr_grpo(rewards: Sequence[float]) -> list[float]:
    """r - mean, arXiv:2503.20783: a division would favour groups that are almost decided. Sums to 0."""
    _require_two(rewards)
    mean = statistics.fmean(rewards)
    return [reward - mean for reward in rewards]


def rloo(rewards: Sequence[float]) -> list[float]:
    """r minus the mean of the others, arXiv:2402.14740: equals dr_grpo times G / (G - 1)."""
    _require_two(rewards)
    total, others = sum(rewards), len(rewards) - 1
    return [reward - (total - reward) / others for reward in rewards]


def reinforce_plus_plus(rewards: Sequence[float]) -> list[float]:
    """Rewards of a whole batch, normalised to mean 0 and standard deviation 1, arXiv:2501.03262."""
    return grpo(rewards)


_OF_A_GROUP: dict[AdvantageName, Estimator] = {"grpo": grpo, "dr_grpo": dr_grpo, "rloo": rloo}


def batch_advantages(name: AdvantageName, groups: Sequence[Group]) -> list[list[list[float]]]:
    """The advantages of each valid episode of each group, in order: one for each turn, or a single one for all turns.

    Every group needs two valid episodes. By turn, an episode is compared with those of its group that reached that
    turn; the advantage is 0 where it is the only one.
    """
    values = [[trajectory.turn_returns or [trajectory.reward] for trajectory in group.valid] for group in groups]
    for group in values:
        _require_two(group)
    if name == "reinforce++":
        flat = iter(reinforce_plus_plus([one for group in values for episode in group for one in episode]))
        return [[[next(flat) for _ in episode] for episode in group] for group in values]
    return [_group_advantages(_OF_A_GROUP[name], group) for group in values]


def _group_advantages(estimator: Estimator, group: Sequence[Sequence[float]]) -> list[list[float]]:
    """The estimator's advantages at each turn, over the episodes that reached it."""
    advantages: list[list[float]] = [[] for _ in group]
    for turn in range(max(map(len, group))):
        reached = [number for number, episode in enumerate(group) if turn < len(episode)]
        of_turn = estimator([group[number][turn] for number in reached]) if len(reached) > 1 else [0.0]
        for number, value in zip(reached, of_turn, strict=True):
            advantages[number].append(value)
    return advantages


class ComputeAdvantages:
    """The tutorial's name for the advantages of one group."""

    def __init__(self, name: AdvantageName = "grpo") -> None:
        self.name: AdvantageName = name

    def compute(self, group: Group) -> list[float]:
        """One advantage for each valid episode of the group: that of its first turn."""
        return [episode[0] for episode in batch_advantages(self.name, [group])[0]]


def _require_two(values: Sequence[object]) -> None:
    if len(values) < 2:
        raise ValueError(f"{len(values)} reward(s): a group of one has no mean to compare with. Give 2 or more.")
