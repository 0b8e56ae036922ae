"""Players of CartPole and FrozenLake, and random play of Gymnasium alone."""

from collections.abc import Iterator
from functools import cache
from random import Random
from typing import Any

import gymnasium

from openenv.envs.gymnasium_env.models import GymnasiumAction
from openenv.envs.gymnasium_env.solvers.toy_text import best_play
from openenv.envs.measured import gymnasium_steps

_PUSH_FOR_SPEED = 0.5
"""Weight of the pole's speed beside its angle, in seconds."""


def balance(observation: Any, rng: Random) -> GymnasiumAction:
    """Push the cart of CartPole to the side to which the pole falls."""
    _, _, angle, spin = observation.value
    return GymnasiumAction(value=int(angle + _PUSH_FOR_SPEED * spin > 0))


def cross_the_lake(observation: Any, rng: Random) -> GymnasiumAction:
    """The best action in each place of FrozenLake while many steps are left."""
    return GymnasiumAction(value=_lake_actions()[observation.value])


def random_steps(env_id: str) -> Iterator[int]:
    """Random play of Gymnasium alone."""
    return gymnasium_steps(gymnasium.make(env_id, disable_env_checker=True))


@cache
def _lake_actions() -> list[int]:
    return best_play("FrozenLake-v1")[1]
