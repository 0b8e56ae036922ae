"""Rewards of episodes.

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

from openenv.rl.algorithm.trajectory import Trajectory
from openenv.rl.config import RewardConfig

log = logging.getLogger(__name__)

Reward = Callable[[Trajectory], float | Sequence[float]]


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
