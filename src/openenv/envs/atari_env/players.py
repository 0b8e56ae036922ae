"""Players that see the console's memory: they return a ball or cross a road. And random play of ALE alone."""

from collections.abc import Iterator
from random import Random
from typing import Any

import ale_py.env

from openenv.envs.atari_env.models import AtariAction, AtariObservation
from openenv.envs.atari_env.text import positions

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


def random_steps(game_name: str, **_: Any) -> Iterator[int]:
    """Random play in ALE's own AtariEnv, which continues its random numbers from episode to episode."""
    env: Any = ale_py.env.AtariEnv(game_name, obs_type="ram")
    rng, num_actions = Random(0), int(env.action_space.n)
    env.reset(seed=0)
    while True:
        *_, terminated, truncated, _ = env.step(rng.randrange(num_actions))
        if terminated or truncated:
            env.reset()
        yield 1
