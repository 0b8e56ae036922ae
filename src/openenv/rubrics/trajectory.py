"""Rubrics that score a whole episode at its end, and divide the score among its steps."""

from abc import abstractmethod
from collections.abc import Awaitable
from typing import Any

from openenv.core.rubric import Rubric

StepHistory = list[tuple[Any, Any]]
"""Actions with the observations that followed them, in order."""


class TrajectoryRubric(Rubric):
    """Collects the steps of an episode. Implement `score_trajectory` and `compute_step_rewards`.

    It stores the observations without copying: later changes affect it, and tensors on an accelerator keep their memory
    until `reset`.
    """

    def __init__(self, intermediate_reward: float = 0.0) -> None:
        """intermediate_reward: the score of every step before the last."""
        super().__init__()
        self.intermediate_reward = intermediate_reward
        self._trajectory: StepHistory = []

    def forward(self, action: Any, observation: Any) -> float | Awaitable[float]:
        """The score of the trajectory if `observation.done`, else the intermediate reward."""
        self._trajectory.append((action, observation))
        if getattr(observation, "done", False):
            return self.score_trajectory(self._trajectory)
        return self.intermediate_reward

    @abstractmethod
    def score_trajectory(self, trajectory: StepHistory) -> float:
        """The score of an episode, usually from 0 to 1. trajectory: every step up to the one that is done."""

    @abstractmethod
    def compute_step_rewards(self) -> list[float]:
        """The reward of each step so far, in order: how the score is divided."""

    def reset(self) -> None:
        """Discard the steps: a new episode begins."""
        super().reset()
        self._trajectory = []

    @property
    def trajectory(self) -> StepHistory:
        """A copy of the list of steps since the reset."""
        return list(self._trajectory)

    def state_dict(self) -> dict[str, Any]:
        """The configuration, without the steps."""
        return {"intermediate_reward": self.intermediate_reward}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a configuration; the steps are kept."""
        self.intermediate_reward = state.get("intermediate_reward", self.intermediate_reward)


class ExponentialDiscountingTrajectoryRubric(TrajectoryRubric):
    """Gives each step the score of the episode, discounted by how many steps came after it."""

    def __init__(self, gamma: float = 0.99, intermediate_reward: float = 0.0) -> None:
        """gamma: 0 (only the last step is rewarded) to 1 (all steps equally). Raises ValueError outside."""
        super().__init__(intermediate_reward=intermediate_reward)
        self.gamma = _checked_gamma(gamma)

    def compute_step_rewards(self) -> list[float]:
        """gamma ** (T - 1 - t) * score for each of the T steps so far; empty before the first."""
        if not self._trajectory:
            return []
        score = self.score_trajectory(self._trajectory)
        last = len(self._trajectory) - 1
        return [self.gamma ** (last - t) * score for t in range(last + 1)]

    def state_dict(self) -> dict[str, Any]:
        """The configuration, without the steps."""
        return {**super().state_dict(), "gamma": self.gamma}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Load a configuration; the steps are kept. Raises ValueError for a gamma outside 0 to 1."""
        gamma = _checked_gamma(state.get("gamma", self.gamma))
        super().load_state_dict(state)
        self.gamma = gamma


def _checked_gamma(gamma: float) -> float:
    if not 0.0 <= gamma <= 1.0:
        raise ValueError(f"gamma={gamma}: a discount lies between 0 (the last step alone) and 1 (all steps alike)")
    return gamma
