"""Rewards of episodes, and their advantages: how much better each episode was than the others of its group.

A reward is any callable from a finished trajectory to a number, or to a number for each of its turns: what was gained
from that turn on. With one number all actions of an episode have the same advantage.
"""

import itertools
import logging
import math
import statistics
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Self

from openenv.rl.config import AdvantageName, RewardConfig
from openenv.rl.rollouts.trajectory import Group, Trajectory

log = logging.getLogger(__name__)

Reward = Callable[[Trajectory], float | Sequence[float]]
Estimator = Callable[[Sequence[float]], list[float]]

_EPSILON = 1e-4


@dataclass(frozen=True, slots=True, kw_only=True)
class RandomReturns:
    """What random play has shown about the returns of an environment."""

    worst: float
    """The lowest return."""
    deviation: float
    """Standard deviation of the returns."""

    @classmethod
    def of(cls, returns: Mapping[float, int]) -> Self:
        """From each return with its number of episodes. Raises ValueError without an episode."""
        if not returns:
            raise ValueError("random play has no finished episode: there is no return to measure rewards by.")
        values = list(Counter(returns).elements())
        return cls(worst=min(values), deviation=statistics.pstdev(values))


class EpisodeReward:
    """The configured reward of an episode: the environment's rewards, or one number for each outcome."""

    def __init__(self, config: RewardConfig | None = None, random_returns: RandomReturns | None = None) -> None:
        """random_returns: needed for `scale: auto`, and for the default of `unparseable`. None: a deviation of 1, and a
        worst return of -1.
        """
        self.config = config or RewardConfig()
        measured = random_returns or RandomReturns(worst=-1.0, deviation=1.0)
        self.factor = _factor(self.config, measured)
        """What the environment's rewards are multiplied by."""
        lowest = min(self.config.by_outcome) if self.config.by_outcome else self.factor * measured.worst
        self.unparseable = lowest if self.config.unparseable is None else self.config.unparseable
        """The reward of an episode that a reply without a legal action ended."""

    def __call__(self, trajectory: Trajectory) -> float | list[float]:
        """The reward of a finished, valid episode. With `credit: step` the discounted return from each turn on."""
        following = returns_to_go(self.of_turns(trajectory), self.config.discount)
        if self.config.credit == "step":
            return [self._limited(value) for value in following]
        if trajectory.outcome == "unparseable":
            return self._limited(self.unparseable)
        return self._limited(following[0] if following else self.of_return(trajectory.game_return))

    def of_return(self, game_return: float | None) -> float:
        """The reward of an episode with this return, without discount and limits. No return counts as 0."""
        game_return = game_return or 0.0
        if self.config.by_outcome is None:
            return self.factor * game_return
        win, push, loss = self.config.by_outcome
        return win if game_return > 0 else loss if game_return < 0 else push

    def of_turns(self, trajectory: Trajectory) -> list[float]:
        """The reward of each turn. The last turn has that of the outcome, or what makes an unparseable episode's sum
        the reward of such episodes."""
        if not trajectory.turns:
            return []
        by_outcome = self.config.by_outcome is not None
        earlier = [0.0 if by_outcome else self.factor * (turn.reward or 0.0) for turn in trajectory.turns[:-1]]
        for number, turn in enumerate(trajectory.turns[:-1]):
            earlier[number] -= self.config.retry_penalty if turn.action is None else 0.0
        if trajectory.outcome == "unparseable":
            return [*earlier, self.unparseable - math.fsum(earlier)]
        if self.config.by_outcome is not None:
            return [*earlier, self.of_return(trajectory.game_return)]
        return [*earlier, self.factor * (trajectory.turns[-1].reward or 0.0)]

    def _limited(self, reward: float) -> float:
        return reward if self.config.clip is None else min(max(reward, self.config.clip[0]), self.config.clip[1])


def _factor(config: RewardConfig, measured: RandomReturns) -> float:
    if config.scale != "auto":
        return config.scale
    if measured.deviation > 0:
        return 1.0 / measured.deviation
    log.warning("reward.scale: all returns of random play are %g, so rewards are not scaled", measured.worst)
    return 1.0


class BlackJackReward(EpisodeReward):
    """The tutorial's reward: 2.0 for a win, 0.5 for a push, -1.0 for a loss."""

    def __init__(self, config: RewardConfig | None = None) -> None:
        super().__init__(config or RewardConfig(win=2.0, push=0.5, loss=-1.0))

    def evaluate_response(self, prompt: str, response: str, game_reward: float) -> float:
        """The reward of the game that `response` belongs to. It depends on `game_reward` alone."""
        return self.of_return(float(game_reward))


def returns_to_go(rewards: Sequence[float], discount: float) -> list[float]:
    """For each turn the sum of its reward and all later ones, each multiplied by `discount` for each turn between."""
    following = itertools.accumulate(reversed(rewards), lambda later, reward: reward + discount * later)
    return list(following)[::-1]


def rate(trajectory: Trajectory, reward: Reward) -> None:
    """Set the reward of a trajectory, and its returns by turn if the reward gives them. An invalid one has 0.

    Raises ValueError if there is not one number for each turn.
    """
    if not trajectory.valid:
        return
    value = reward(trajectory)
    if isinstance(value, int | float):
        trajectory.reward = float(value)
        return
    if len(value) != len(trajectory.turns):
        raise ValueError(f"the reward gave {len(value)} numbers for an episode of {len(trajectory.turns)} turns.")
    trajectory.turn_returns = [float(one) for one in value]
    trajectory.reward = trajectory.turn_returns[0] if trajectory.turn_returns else 0.0


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
