"""Representative tasks: a table, a control problem, and MuJoCo where it is installed."""

from functools import partial
from random import Random
from typing import Any

import gymnasium

from openenv.envs.gymnasium_env.models import GymnasiumAction
from openenv.envs.gymnasium_env.server.choice import tasks
from openenv.envs.gymnasium_env.solvers.toy_text import best_play
from openenv.envs.measured import MeasuredTask, gymnasium_steps_per_second

_PUSH_FOR_SPEED = 0.5
"""Weight of the pole's speed beside its angle, in seconds."""


def balance(observation: Any, rng: Random) -> GymnasiumAction:
    """Push the cart of CartPole to the side to which the pole falls."""
    _, _, angle, spin = observation.value
    return GymnasiumAction(value=int(angle + _PUSH_FOR_SPEED * spin > 0))


def cross_the_lake(observation: Any, rng: Random) -> GymnasiumAction:
    """The best action in each place of FrozenLake while many steps are left."""
    return GymnasiumAction(value=_LAKE_ACTIONS[observation.value])


def _play_bare(env_id: str, seconds: float) -> float:
    env = gymnasium.make(env_id, disable_env_checker=True)
    try:
        return gymnasium_steps_per_second(env, seconds)
    finally:
        env.close()


_LAKE_RETURN, _LAKE_ACTIONS = best_play("FrozenLake-v1")
MEASURED = {
    "FrozenLake-v1": MeasuredTask(
        reset={"env_id": "FrozenLake-v1"},
        play_bare=partial(_play_bare, "FrozenLake-v1"),
        heuristic=cross_the_lake,
        best_return=_LAKE_RETURN,
    ),
    "CartPole-v1": MeasuredTask(
        reset={"env_id": "CartPole-v1"},
        play_bare=partial(_play_bare, "CartPole-v1"),
        heuristic=balance,
        best_return=500.0,
        num_episodes=200,
    ),
}
if "HalfCheetah-v5" in tasks():
    MEASURED["HalfCheetah-v5"] = MeasuredTask(
        reset={"env_id": "HalfCheetah-v5"}, play_bare=partial(_play_bare, "HalfCheetah-v5"), num_episodes=20
    )
