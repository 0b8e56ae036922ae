"""Random play of bare libraries, which is the limit of an environment's speed."""

import time
from typing import Any

_BATCH = 20
"""Steps between two looks at the clock."""


def gymnasium_steps_per_second(env: Any, seconds: float) -> float:
    """Play a `gymnasium.Env` at random for about so many seconds. It draws its actions from its action space."""
    env.reset(seed=0)
    env.action_space.seed(0)
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(_BATCH):
            *_, terminated, truncated, _ = env.step(env.action_space.sample())
            if terminated or truncated:
                env.reset()
        steps += _BATCH
    return steps / (time.perf_counter() - began)
