"""Representative tasks: a pole that a simple controller balances, and a running body."""

import time
from functools import partial
from random import Random
from typing import Any

import numpy as np
from dm_control import suite

from openenv.envs.dm_control_env.models import DMControlAction
from openenv.envs.dm_control_env.server.choice import tasks
from openenv.envs.measured import MeasuredTask

_GAINS = (0.5, 5.0, 0.5, 1.0)
"""Controls by the cart's position, the pole's angle, and the speeds of both."""
_BATCH = 20
"""Steps between two looks at the clock."""


def balance(observation: Any, rng: Random) -> DMControlAction:
    """Push the cart of `cartpole` to the side to which the pole falls, and back to the middle."""
    parts = observation.observations
    position, cosine, sine = parts["position"]
    state = (position, np.arctan2(sine, cosine), *parts["velocity"])
    force = sum(gain * number for gain, number in zip(_GAINS, state, strict=True))
    return DMControlAction(values=[float(np.clip(force, -1.0, 1.0))])


def _play_bare(domain_name: str, task_name: str, seconds: float) -> float:
    env = suite.load(domain_name, task_name, task_kwargs={"random": 0})
    spec, rng = env.action_spec(), np.random.default_rng(0)
    env.reset()
    steps, began = 0, time.perf_counter()
    while time.perf_counter() - began < seconds:
        for _ in range(_BATCH):
            if env.step(rng.uniform(spec.minimum, spec.maximum)).last():
                env.reset()
        steps += _BATCH
    return steps / (time.perf_counter() - began)


MEASURED = {
    "cartpole-balance": MeasuredTask(
        reset=tasks()["cartpole-balance"],
        play_bare=partial(_play_bare, "cartpole", "balance"),
        heuristic=balance,
        num_episodes=50,
    ),
    "cheetah-run": MeasuredTask(
        reset=tasks()["cheetah-run"], play_bare=partial(_play_bare, "cheetah", "run"), num_episodes=20
    ),
}
