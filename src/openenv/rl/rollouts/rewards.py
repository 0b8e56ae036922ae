"""Rewards of episodes, and their advantages: how much better each episode was than the others of its group.

A reward is any callable from a finished trajectory to a number. Each episode has one advantage, which applies to every
token sampled in it.
"""

import statistics
from collections.abc import Callable, Sequence

from openenv.rl.config import AdvantageName, RewardConfig
from openenv.rl.rollouts.trajectory import Group, Trajectory

Reward = Callable[[Trajectory], float]
Estimator = Callable[[Sequence[float]], list[float]]

_EPSILON = 1e-4


class OutcomeReward:
    """Rewards win, push and loss by the sign of the game's return, and penalizes replies without a legal action."""

    def __init__(self, config: RewardConfig | None = None) -> None:
        self.config = config or RewardConfig()

    def __call__(self, trajectory: Trajectory) -> float:
        """The reward of a finished, valid episode."""
        if trajectory.outcome == "unparseable":
            return self.config.unparseable
        return self.of_return(trajectory.game_return)

    def of_return(self, game_return: float) -> float:
        """The reward of an episode with this return."""
        config = self.config
        return config.win if game_return > 0 else config.loss if game_return < 0 else config.push


class BlackJackReward(OutcomeReward):
    """The tutorial's name for the default reward: 2.0 for a win, 0.5 for a push, -1.0 for a loss."""

    def evaluate_response(self, prompt: str, response: str, game_reward: float) -> float:
        """The reward of the game that `response` belongs to. It depends on `game_reward` alone."""
        return self.of_return(float(game_reward))


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


def batch_advantages(name: AdvantageName, groups: Sequence[Group]) -> list[list[float]]:
    """The advantage of each valid episode of each group, in order. Every group needs two valid episodes."""
    rewards = [[trajectory.reward for trajectory in group.valid] for group in groups]
    if name == "reinforce++":
        flat = iter(reinforce_plus_plus([reward for group in rewards for reward in group]))
        return [[next(flat) for _ in group] for group in rewards]
    return [_OF_A_GROUP[name](group) for group in rewards]


class ComputeAdvantages:
    """The tutorial's name for the advantages of one group."""

    def __init__(self, name: AdvantageName = "grpo") -> None:
        self.name: AdvantageName = name

    def compute(self, group: Group) -> list[float]:
        """One advantage for each valid episode of the group."""
        return batch_advantages(self.name, [group])[0]


def _require_two(rewards: Sequence[float]) -> None:
    if len(rewards) < 2:
        raise ValueError(f"{len(rewards)} reward(s): a group of one has no mean to compare with. Give 2 or more.")
