"""Catch, drawn as 50 x 50 pixels: an environment whose observations are images and nothing else."""

import random
from typing import Any, Literal

import numpy as np
from pydantic import Field

from openenv import Action, Environment, Observation, State
from openenv.formats.images import Image

ROWS, COLUMNS = 10, 5
HEIGHT, WIDTH = 5, 10
"""Pixels of a cell."""
BALL, PADDLE = (220, 60, 40), (240, 240, 240)
MOVES = {"left": -1, "stay": 0, "right": 1}


class CatchAction(Action):
    """A move of the paddle."""

    move: Literal["left", "stay", "right"] = Field(description="Where the paddle moves")


class CatchObservation(Observation):
    """The board."""

    frame: Image = Field(description="The ball is red, the paddle white")


class CatchPixels(Environment[CatchAction, CatchObservation, State]):
    """A ball falls from the top, a row a turn. Catch it with the paddle in the last row."""

    execution = "inline"

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> CatchObservation:
        """A ball in a random column, and the paddle in the middle."""
        self._row, self._ball = 0, random.Random(seed).randrange(COLUMNS)
        self._paddle = COLUMNS // 2
        self._state = State(episode_id=episode_id)
        return self._seen()

    def step(self, action: CatchAction, timeout_s: float | None = None, **kwargs: Any) -> CatchObservation:
        """Move the paddle, then the ball. The reward of the last turn is 1 for a catch, else -1."""
        self._paddle = min(max(self._paddle + MOVES[action.move], 0), COLUMNS - 1)
        self._row += 1
        self._state.step_count += 1
        return self._seen()

    @property
    def state(self) -> State:
        """The number of turns."""
        return self._state

    def _seen(self) -> CatchObservation:
        frame = np.zeros((ROWS, HEIGHT, COLUMNS, WIDTH, 3), np.uint8)
        frame[self._row, :, self._ball] = BALL
        frame[ROWS - 1, :, self._paddle] = PADDLE
        done = self._row == ROWS - 1
        reward = 0.0 if not done else 1.0 if self._ball == self._paddle else -1.0
        return CatchObservation(frame=frame.reshape(ROWS * HEIGHT, COLUMNS * WIDTH, 3), done=done, reward=reward)
