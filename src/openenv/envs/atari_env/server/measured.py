"""Representative games, seen by the console's memory: two with a ball to return, and a road to cross."""

import time
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

import ale_py.env

from openenv.envs.atari_env.models import AtariAction, AtariObservation
from openenv.envs.atari_env.server.choice import tasks
from openenv.envs.atari_env.text import positions
from openenv.envs.measured import MeasuredTask

_CLOSE = 3
"""Pixels between ball and paddle at which the paddle stays."""


def _named(observation: AtariObservation, name: str) -> AtariAction:
    return AtariAction(action_id=observation.metadata["legal_action_names"].index(name))


def follow_in_pong(observation: AtariObservation, rng: Random) -> AtariAction:
    """Keep the paddle at the height of the ball."""
    seen = positions(observation)
    if "ball y" not in seen or "you y" not in seen:
        return _named(observation, "FIRE")
    below = seen["ball y"] - seen["you y"]
    return _named(observation, "NOOP" if abs(below) <= _CLOSE else "LEFT" if below > 0 else "RIGHT")


def follow_in_breakout(observation: AtariObservation, rng: Random) -> AtariAction:
    """Keep the paddle below the ball, and serve."""
    seen = positions(observation)
    if "ball y" not in seen:
        return _named(observation, "FIRE")
    right = seen["ball x"] - seen["you x"]
    return _named(observation, "NOOP" if abs(right) <= _CLOSE else "RIGHT" if right > 0 else "LEFT")


def walk_up(observation: AtariObservation, rng: Random) -> AtariAction:
    """Walk up, whatever comes."""
    return _named(observation, "UP")


def play_bare(game_name: str, seconds: float) -> float:
    """Random play of a game in ALE's own AtariEnv, which continues its random numbers from episode to episode."""
    env: Any = ale_py.env.AtariEnv(game_name, obs_type="ram")
    rng, steps = Random(0), 0
    num_actions = int(env.action_space.n)
    env.reset(seed=0)
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        _, _, terminated, truncated, _ = env.step(rng.randrange(num_actions))
        steps += 1
        if terminated or truncated:
            env.reset()
    return steps / (time.perf_counter() - started)


def _task(game_name: str, heuristic: Callable[[Any, Random], Any]) -> MeasuredTask:
    return MeasuredTask(
        reset={**tasks()[game_name], "obs_type": "ram"},
        play_bare=partial(play_bare, game_name),
        heuristic=heuristic,
        num_episodes=20,
    )


MEASURED = {
    "pong": _task("pong", follow_in_pong),
    "breakout": _task("breakout", follow_in_breakout),
    "freeway": _task("freeway", walk_up),
}
