"""An environment whose steps take 10 to 500 ms, most of them little, as tools and simulators do."""

import random
import time
from typing import Any

from openenv.core import Action, Environment, Observation, State

SHORTEST_S, LONGEST_S = 0.01, 0.5
TURNS = 4


class Line(Action):
    """What the agent writes."""

    text: str


class Answer(Observation):
    """A word, which depends on nothing that was written."""

    word: str


class SlowEnvironment(Environment[Line, Answer, State]):
    """Ends after four lines. The time of a step is 10 ms * 50 ** u ** 3 with u from 0 to 1: 37 ms on average."""

    def __init__(self) -> None:
        self._state = State()
        self._random = random.Random()
        self._step_s: float | None = None

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, step_s: float | None = None, **keywords: Any
    ) -> Answer:
        """Begin an episode at once. step_s: the time of each step instead."""
        self._state, self._random, self._step_s = State(episode_id=episode_id), random.Random(seed), step_s
        return self._answer()

    def step(self, action: Line, timeout_s: float | None = None, **keywords: Any) -> Answer:
        """Take a while. The reward is the number of words modulo 3."""
        self._state.step_count += 1
        drawn_s = SHORTEST_S * (LONGEST_S / SHORTEST_S) ** self._random.random() ** 3
        time.sleep(drawn_s if self._step_s is None else self._step_s)
        answer = self._answer()
        answer.reward, answer.done = float(len(action.text.split()) % 3), self._state.step_count == TURNS
        return answer

    def _answer(self) -> Answer:
        return Answer(word=self._random.choice(("red", "green", "blue")), reward=0.0)

    @property
    def state(self) -> State:
        """The episode's id and its number of steps."""
        return self._state
