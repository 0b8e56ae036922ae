"""A controller that balances the pole of cartpole, and random play of dm_control alone."""

from collections.abc import Iterator
from random import Random
from typing import Any

import numpy as np
from dm_control import suite

from openenv.envs.dm_control_env.models import DMControlAction

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


def random_steps(domain_name: str, task_name: str) -> Iterator[int]:
    """Random play of dm_control alone."""
    env = suite.load(domain_name, task_name, task_kwargs={"random": 0})
    spec, rng = env.action_spec(), np.random.default_rng(0)
    env.reset()
    while True:
        for _ in range(_BATCH):
            if env.step(rng.uniform(spec.minimum, spec.maximum)).last():
                env.reset()
        yield _BATCH
