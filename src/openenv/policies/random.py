"""Uniformly random play."""

from random import Random
from typing import Any

from openenv.core.text import TextInterface
from openenv.policies.base import Choice, Policy


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


class RandomReplyPolicy(Policy):
    """Each reply that a text interface offers equally often: random play of any environment that a model can play."""

    name = "random"

    def __init__(self, text: TextInterface[Any, Any], seed: int | None = None) -> None:
        """seed: equal seeds choose equally; None draws one from the system."""
        self._text = text
        self._rng = Random(seed)

    def select_action(self, observation: Any) -> Choice:
        """The action of one of the legal replies."""
        choice: Choice = self._rng.choice(list(self._text.replies(observation).values()))
        return choice
