"""The tasks of snake, and what `openenv envs --measure` plays: a board of 6 x 6 cells, at random and by safe paths."""

from collections.abc import Mapping
from random import Random
from typing import Any

from openenv.envs.measured import MeasuredTask, in_process
from openenv.envs.snake_env.models import SnakeAction, SnakeObservation
from openenv.envs.snake_env.server.environment import SnakeEnvironment
from openenv.envs.snake_env.solvers.safe_path import safe_action

SMALL: Mapping[str, Any] = {"size": 6}


def tasks() -> Mapping[str, Mapping[str, Any]]:
    """The reset keywords of each task."""
    return {
        "snake": {},
        "small": SMALL,
        "smallest": {"size": 4},
        "large": {"size": 15},
        "hungry": {"hunger": 20},
        "short": {"size": 6, "max_steps": 50},
    }


def _random(seen: SnakeObservation, rng: Random) -> SnakeAction:
    return SnakeAction(direction=rng.choice(seen.legal_actions))


MEASURED = {
    "small": MeasuredTask(
        reset=SMALL,
        play_bare=in_process(SnakeEnvironment, _random, **SMALL),
        heuristic=safe_action,
        num_episodes=300,
    ),
}
