"""A walk on a small board, of any length."""

from random import Random
from typing import Literal

from openenv.core.env_server import Action, Environment, Observation, State

SIZE = 6


class WalkAction(Action):
    """One move."""

    direction: Literal["left", "right"]


class WalkObservation(Observation):
    """The board, and the place on it."""

    board: list[list[str]]
    place: int
    note: str


class WalkEnvironment(Environment[WalkAction, WalkObservation, State]):
    """The reward is 1 at the right end of the board."""

    def __init__(self) -> None:
        self._state = State()
        self._place = 0

    def reset(self, seed=None, episode_id=None, **kwargs) -> WalkObservation:
        self._state = State(episode_id=episode_id)
        self._place = Random(seed).randrange(SIZE)
        return self._observation()

    def step(self, action: WalkAction, timeout_s=None, **kwargs) -> WalkObservation:
        self._state.step_count += 1
        self._place = min(max(self._place + (1 if action.direction == "right" else -1), 0), SIZE - 1)
        return self._observation()

    @property
    def state(self) -> State:
        return self._state

    def _observation(self) -> WalkObservation:
        board = [["." for _ in range(SIZE)], ["@" if column == self._place else "." for column in range(SIZE)]]
        reward = float(self._place == SIZE - 1)
        return WalkObservation(
            board=board, place=self._place, note=f"{SIZE - 1 - self._place} to go", reward=reward, done=False
        )
