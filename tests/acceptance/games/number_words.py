"""A game in one file, as a new author writes it: the observation names a number, and the action is that number."""

from random import Random
from typing import Any

from pydantic import Field

from openenv import Action, Environment, Observation, State

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class NumberAction(Action):
    number: int = Field(ge=0, le=9)


class WordObservation(Observation):
    word: str


class GameEnvironment(Environment[NumberAction, WordObservation, State]):
    def __init__(self) -> None:
        self._state = State()
        self._number = 0

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> WordObservation:
        self._state = State(episode_id=episode_id)
        self._number = Random(seed).randrange(10)
        return WordObservation(word=WORDS[self._number])

    def step(self, action: NumberAction, timeout_s: float | None = None, **kwargs: Any) -> WordObservation:
        self._state.step_count += 1
        return WordObservation(word=WORDS[self._number], done=True, reward=float(action.number == self._number))

    @property
    def state(self) -> State:
        return self._state
