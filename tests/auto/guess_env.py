"""A game in one file, as an author writes it first: say the number that is written in words."""

from random import Random
from typing import Any

from pydantic import Field

from openenv.core.env_server import Action, Environment, Observation, State

WORDS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


class GuessAction(Action):
    number: int = Field(ge=0, le=9, description="The number that the word names")


class GuessObservation(Observation):
    word: str = Field(description="A number in words")


class GuessEnvironment(Environment[GuessAction, GuessObservation, State]):
    """Say the number that is written in words."""

    def __init__(self) -> None:
        super().__init__()
        self._state = State()
        self._number = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> GuessObservation:
        self._state = State(episode_id=episode_id)
        self._number = Random(seed).randrange(10)
        return GuessObservation(word=WORDS[self._number])

    def step(self, action: GuessAction, timeout_s: float | None = None, **kwargs: Any) -> GuessObservation:
        self._state.step_count += 1
        reward = float(action.number == self._number)
        return GuessObservation(word=WORDS[self._number], done=True, reward=reward)

    @property
    def state(self) -> State:
        return self._state
