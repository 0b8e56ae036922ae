"""Tabular Monte Carlo control: a table of action values, learned from rewards alone."""

from collections.abc import Callable, Hashable, Mapping
from random import Random
from typing import Any, ClassVar

from openenv.policies.base import Policy
from openenv.schema.legal_actions import REFUSED_REMEDY
from openenv.text.content import frozen
from openenv.text.interface import TextInterface


def seen_numbers(observation: Any) -> Hashable:
    """The observation's numbers, or its text if it has none."""
    return tuple(observation.info_state) or observation.metadata.get("text", "")


class LearningPolicy(Policy):
    """Epsilon-greedy control with a table that has one row for each state seen.

    At the end of an episode the value of each action taken moves toward the return that followed it (every-visit Monte
    Carlo, Sutton and Barto 2018, section 5.4, with a step of 1 / visits, at least `min_step_size`). Exploration
    falls from 1 to `min_epsilon` as 1 / (1 + episodes / half_life). Suited to games with few states.
    """

    name = "learning"
    learns: ClassVar[bool] = True

    def __init__(
        self,
        seed: int | None = None,
        *,
        half_life: float = 5.0,
        min_epsilon: float = 0.02,
        min_step_size: float = 0.1,
        state_key: Callable[[Any], Hashable] | None = None,
        text: TextInterface[Any, Any] | None = None,
    ) -> None:
        """
        Args:
            half_life: episodes after which exploration has halved.
            text: names the actions of environments whose observations have no `legal_actions`.
            state_key: equal keys mean the same state; None: the observation's numbers, or with `text` its description.
        """
        self._rng = Random(seed)
        self._text = text
        if state_key is None:
            state_key = seen_numbers if text is None else lambda observation: frozen(text.describe(observation))
        self._half_life = half_life
        self._min_epsilon = min_epsilon
        self._min_step_size = min_step_size
        self._state_key = state_key
        self._values: dict[tuple[Hashable, Hashable], float] = {}
        self._visits: dict[tuple[Hashable, Hashable], int] = {}
        self._path: list[tuple[tuple[Hashable, Hashable], float]] = []
        self.episodes = 0

    @property
    def epsilon(self) -> float:
        """The current probability of a random action."""
        return max(self._min_epsilon, 1.0 / (1.0 + self.episodes / self._half_life))

    def select_action(self, observation: Any) -> Any:
        """A random legal action with probability `epsilon`, else one of the highest value. Unknown values are 0.

        Raises ValueError where the actions cannot be counted.
        """
        legal = self._legal(observation)
        if self._rng.random() < self.epsilon:
            return legal[self._rng.choice(list(legal))]
        state = self._state_key(observation)
        values = {name: self._values.get((state, name), 0.0) for name in legal}
        best = max(values.values())
        return legal[self._rng.choice([name for name, value in values.items() if value == best])]

    def _legal(self, observation: Any) -> Mapping[Hashable, Any]:
        """The legal actions by the name that the table has for each."""
        if self._text is None:
            return {number: number for number in observation.legal_actions}
        legal: Mapping[Any, Any] = self._text.replies(observation)
        if not legal:
            raise ValueError(
                "policy 'learning' has a row for each action, and the actions here cannot be counted: "
                f"{REFUSED_REMEDY}."
            )
        return legal

    def learn(self, observation: Any, action: Any, reward: float, next_observation: Any, done: bool) -> None:
        """Store the step. At the end of the episode, move the values of its actions toward their returns."""
        name = action if self._text is None else self._text.wording(action, observation)
        self._path.append(((self._state_key(observation), name), reward))
        if not done:
            return
        self.episodes += 1
        following = 0.0
        for row, step_reward in reversed(self._path):
            following += step_reward
            self._visits[row] = self._visits.get(row, 0) + 1
            step_size = max(self._min_step_size, 1.0 / self._visits[row])
            value = self._values.get(row, 0.0)
            self._values[row] = value + step_size * (following - value)
        self._path.clear()

    def forget_episode(self) -> None:
        """Discard the steps of an episode that failed."""
        self._path.clear()
