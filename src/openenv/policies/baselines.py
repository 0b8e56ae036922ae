"""Policies that need no learning and play any environment: random and constant play."""

from collections.abc import Sequence
from random import Random
from typing import Any

from openenv.core.env_server.types import Action
from openenv.policies.base import Policy, legal_names
from openenv.text.interface import TextInterface

_MOST_DRAWS = 100
"""Actions of random play that an environment may refuse in a row."""


class RandomPolicy(Policy):
    """Chooses each legal action with the same probability. Where the environment refuses one, it draws again."""

    name = "random"

    def __init__(self, seed: int | str | None = None, *, text: TextInterface[Any, Any] | None = None) -> None:
        """seed: equal seeds give equal choices; None takes a seed from the system.

        text: gives the random replies, for environments whose observations have no `legal_actions`.
        """
        self._rng = Random(seed)
        self._text = text

    def select_action(self, observation: Any) -> Any:
        """One of the legal actions."""
        if self._text is not None:
            return self.select_reply(observation)[1]
        return self._rng.choice(self.legal_choices(observation))

    def on_refusal(self, episode: int, reason: str, refusals: int) -> bool:
        """Draw again, so that play is legal where the observation does not name the legal actions."""
        return refusals < _MOST_DRAWS

    def select_reply(self, observation: Any) -> tuple[str, Action]:
        """A random reply of the text interface, and the action that it names. Raises ValueError without `text`."""
        if self._text is None:
            raise ValueError("RandomPolicy was created without a text interface: give text=...")
        return self._text.random_reply(observation, self._rng)

    def legal_choices(self, observation: Any) -> Sequence[Any]:
        """The actions to choose from, without a text interface."""
        legal: Sequence[int] = observation.legal_actions
        return legal


class ConstantPolicy(Policy):
    """Always chooses the action of one name, such as `stay` or `stand`."""

    def __init__(
        self,
        action_name: str = "stay",
        *,
        otherwise: int | None = None,
        text: TextInterface[Any, Any] | None = None,
    ) -> None:
        """otherwise: the action number to choose if no legal action has that name. text: names the actions of
        environments whose observations have no `legal_actions`.
        """
        self.name = f"always {action_name}"
        self._action_name = action_name.lower()
        self._otherwise = otherwise
        self._text = text

    def select_action(self, observation: Any) -> Any:
        """The action. Raises ValueError if it is not legal."""
        legal = getattr(observation, "legal_actions", None)
        if self._text is not None and not (legal and isinstance(legal[0], int)):
            action = self._text.parse(self._action_name, observation)
            if action is None:
                raise ValueError(f"{self.name}: {self._text.problem(self._action_name, observation)}")
            return action
        names = legal_names(observation)
        if self._action_name in names:
            number: int = observation.legal_actions[names.index(self._action_name)]
            return number
        if self._otherwise in observation.legal_actions:
            assert self._otherwise is not None
            return self._otherwise
        raise ValueError(f"{self.name}: no legal action has that name. Legal: {', '.join(names)}.")
