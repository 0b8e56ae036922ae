"""Always the same action."""

from typing import Any

from openenv.policies.base import Policy, legal_names


class ConstantPolicy(Policy):
    """Always the action of one name: `stay` in catch, `stand` in blackjack."""

    def __init__(self, action_name: str = "stay", *, otherwise: int | None = None) -> None:
        """otherwise: the action number to take where no legal action has the name."""
        self.name = f"always {action_name}"
        self._action_name = action_name.lower()
        self._otherwise = otherwise

    def select_action(self, observation: Any) -> int:
        """The number of the action. Raises ValueError where it is not legal."""
        names = legal_names(observation)
        if self._action_name in names:
            number: int = observation.legal_actions[names.index(self._action_name)]
            return number
        if self._otherwise in observation.legal_actions:
            assert self._otherwise is not None
            return self._otherwise
        raise ValueError(f"{self.name}: no legal action has that name. Legal: {', '.join(names)}.")
