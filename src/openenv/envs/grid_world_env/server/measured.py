"""The tasks of the grid world, and what `openenv envs --measure` plays: random grids, and a slippery one."""

from collections.abc import Mapping
from dataclasses import replace
from functools import lru_cache
from random import Random
from typing import Any

from openenv.envs.grid_world_env.models import GridWorldAction, GridWorldObservation
from openenv.envs.grid_world_env.server.environment import GridWorldEnvironment
from openenv.envs.grid_world_env.server.grid import STEPS, Grid, read_layout
from openenv.envs.grid_world_env.solvers.value_iteration import Values, best_direction, best_return, best_values
from openenv.envs.measured import MeasuredTask, in_process

_HORIZON = 100
"""Steps that are planned; with more left, they are played as the last of these."""
LAYOUT = ["S...", ".#.#", "...#", "#..G"]
_SLIPPERY: Mapping[str, Any] = {"layout": LAYOUT, "slip": 0.2, "max_steps": 64}


def tasks() -> Mapping[str, Mapping[str, Any]]:
    """The reset keywords of each task."""
    return {
        "grid_world": {},
        "open": {"density": 0.0},
        "large": {"size": 10, "density": 0.3},
        "slippery": {"slip": 0.2},
        "slippery_layout": _SLIPPERY,
        "short": {"size": 4, "max_steps": 12},
    }


def _random(_: GridWorldObservation, rng: Random) -> GridWorldAction:
    return GridWorldAction(direction=rng.choice(list(STEPS)))


def best_action(seen: GridWorldObservation, _: Random) -> GridWorldAction:
    """The best step on the observed board, by value iteration."""
    grid = read_layout(seen.board.replace("A", "S").split("\n"))
    values = _values(replace(grid, start=grid.goal), seen.slip)
    following = values[min(seen.steps_left, len(values)) - 1]
    return GridWorldAction(direction=best_direction(grid, seen.slip, grid.start, following))


@lru_cache(maxsize=64)
def _values(grid: Grid, slip: float) -> list[Values]:
    return best_values(grid, slip, _HORIZON)


MEASURED = {
    "grid_world": MeasuredTask(play_bare=in_process(GridWorldEnvironment, _random), heuristic=best_action),
    "slippery_layout": MeasuredTask(
        reset=_SLIPPERY,
        play_bare=in_process(GridWorldEnvironment, _random, **_SLIPPERY),
        heuristic=best_action,
        best_return=best_return(read_layout(LAYOUT), _SLIPPERY["slip"], _SLIPPERY["max_steps"]),
    ),
}
