"""An environment that counts, with every way to misbehave that the tests need."""

import random
import threading
import time
from typing import Any

import numpy as np
from pydantic import field_validator

from openenv.core import Action, EnvClient, Environment, Observation, State


class CountAction(Action):
    """What to add, or how to misbehave."""

    amount: int
    mischief: str = ""

    @field_validator("amount")
    @classmethod
    def _not_thirteen(cls, amount: int) -> int:
        if amount == 13:
            raise ValueError("thirteen is unlucky")
        return amount


class CountObservation(Observation):
    """The total, and what else a test asks for."""

    total: int
    draw: float = 0.0
    payload: Any = None


class CountState(State):
    """The total is part of the state."""

    total: int = 0


class CountingEnvironment(Environment[CountAction, CountObservation, CountState]):
    """Adds amounts; ends at ten."""

    def __init__(self) -> None:
        self._state = CountState()
        self._rng = random.Random()

    def reset(self, seed: int | None = None, episode_id: str | None = None, start: int = 0) -> CountObservation:
        self._state = CountState(episode_id=episode_id, total=start)
        self._rng = random.Random(seed)
        return CountObservation(total=start, draw=self._rng.random())

    def step(self, action: CountAction, timeout_s: float | None = None, **kwargs: Any) -> CountObservation:
        payload: Any = {"timeout_s": timeout_s, **kwargs} if kwargs else None
        if action.mischief == "raise":
            raise ValueError(f"amount={action.amount} is not to my taste")
        if action.mischief == "sleep":
            time.sleep(0.5)
        if action.mischief == "numpy":
            payload = {"array": np.arange(4, dtype=np.float32).reshape(2, 2), "scalar": np.int64(3)}
        if action.mischief == "thread":
            payload = threading.current_thread().name
        if action.mischief == "unserialisable":
            payload = object()
        if action.mischief == "wrong type":
            return "not an observation"  # type: ignore[return-value]
        self._state.step_count += 1
        self._state.total += action.amount
        reward = float("nan") if action.mischief == "nan" else float(action.amount)
        return CountObservation(
            total=self._state.total,
            draw=self._rng.random(),
            payload=payload,
            reward=reward,
            done=self._state.total >= 10,
            metadata=action.metadata,
        )

    @property
    def state(self) -> CountState:
        return self._state


class CountEnv(EnvClient[CountAction, CountObservation, CountState]):
    """Typed client: nothing to write."""
