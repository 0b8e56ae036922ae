"""The guess environment."""

from random import Random
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import State
from openenv.envs.guess_env.models import WORDS, GuessAction, GuessObservation


class GuessEnvironment(Environment[GuessAction, GuessObservation, State]):
    """Say the number that is written in words. An episode is one guess; the reward is 1 if it is right, else 0."""

    execution = "inline"
    success_return = 1.0

    def __init__(self) -> None:
        self._state = State()
        self._number = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> GuessObservation:
        """Draw a number. Equal seeds draw equal numbers. Raises ValueError for any other keyword."""
        if kwargs:
            raise ValueError(f"reset takes seed and episode_id, got {', '.join(sorted(kwargs))}")
        self._state = State(episode_id=episode_id or str(uuid4()))
        self._number = Random(seed).randrange(len(WORDS))
        return GuessObservation(word=WORDS[self._number])

    def step(self, action: GuessAction, timeout_s: float | None = None, **kwargs: Any) -> GuessObservation:
        """Compare the guess with the number, and end the episode."""
        self._state.step_count += 1
        reward = float(action.number == self._number)
        return GuessObservation(word=WORDS[self._number], done=True, reward=reward)

    def save_state(self) -> bytes:
        """The number and the state."""
        return f"{self._number} {self._state.model_dump_json()}".encode()

    def load_state(self, snapshot: bytes) -> None:
        """Continue a saved episode."""
        number, _, state = snapshot.decode().partition(" ")
        self._number, self._state = int(number), State.model_validate_json(state)

    @property
    def state(self) -> State:
        """The episode's id and its number of steps."""
        return self._state
