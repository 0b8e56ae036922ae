"""Uniformly random play."""

from random import Random
from typing import Any

from openenv.policies.base import Policy


class RandomPolicy(Policy):
    """Each legal action equally often."""

    name = "random"

    def __init__(self, seed: int | None = None) -> None:
        """seed: equal seeds choose equally; None draws one from the system."""
        self._rng = Random(seed)

    def select_action(self, observation: Any) -> int:
        """One of `legal_actions`."""
        choice: int = self._rng.choice(observation.legal_actions)
        return choice
