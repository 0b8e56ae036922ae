"""An environment whose rewards are no wins and losses: three turns, each with a reward, and a rubric of two parts."""

from random import Random
from typing import Any, Literal

from openenv.core.env_server import Action, Environment, Observation, State

TURNS = 3
WORDS = ("red", "green", "blue")


class SayAction(Action):
    word: Literal["red", "green", "blue"]


class PointsObservation(Observation):
    word: str


class PointsEnvironment(Environment[SayAction, PointsObservation, State]):
    """Say the word that you see. Turn k (from 1) is worth 10 k for the word and -k for another one."""

    def __init__(self) -> None:
        super().__init__()
        self._state = State()
        self._words: list[str] = []

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> PointsObservation:
        self._state = State(episode_id=episode_id)
        self._words = Random(seed).choices(WORDS, k=TURNS + 1)
        return PointsObservation(word=self._words[0])

    def step(self, action: SayAction, timeout_s: float | None = None, **kwargs: Any) -> PointsObservation:
        right = action.word == self._words[self._state.step_count]
        self._state.step_count += 1
        turn = self._state.step_count
        return PointsObservation(
            word=self._words[turn],
            done=turn == TURNS,
            reward=10.0 * turn if right else -1.0 * turn,
            metadata={"rubric": {"right": float(right), "style.brief": 0.5, "remark": "no number"}},
        )

    @property
    def state(self) -> State:
        return self._state


class UnrewardedEnvironment(PointsEnvironment):
    """No step has a reward."""

    def step(self, action: SayAction, timeout_s: float | None = None, **kwargs: Any) -> PointsObservation:
        observation = super().step(action, timeout_s, **kwargs)
        observation.reward = None
        return observation


class DullEnvironment(PointsEnvironment):
    """Every episode has the return 7, whatever the action."""

    def step(self, action: SayAction, timeout_s: float | None = None, **kwargs: Any) -> PointsObservation:
        observation = super().step(action, timeout_s, **kwargs)
        observation.reward = 7.0 if observation.done else 0.0
        return observation


class LuckEnvironment(PointsEnvironment):
    """The return is what the seed draws, whatever the action."""

    def step(self, action: SayAction, timeout_s: float | None = None, **kwargs: Any) -> PointsObservation:
        observation = super().step(action, timeout_s, **kwargs)
        observation.reward = float(self._words[0] == "red") if observation.done else 0.0
        return observation
