"""The best player of the grid world, by value iteration on the board that it sees."""

from dataclasses import replace
from functools import lru_cache
from random import Random

from openenv.envs.grid_world_env.models import GridWorldAction, GridWorldObservation
from openenv.envs.grid_world_env.server.grid import Grid, read_layout
from openenv.envs.grid_world_env.solvers.value_iteration import Values, best_direction, best_values

_HORIZON = 100
"""Steps that are planned; with more left, they are played as the last of these."""


def best_action(seen: GridWorldObservation, _: Random) -> GridWorldAction:
    """The best step on the observed board, by value iteration."""
    grid = read_layout(seen.board.replace("A", "S").split("\n"))
    values = _values(replace(grid, start=grid.goal), seen.slip)
    following = values[min(seen.steps_left, len(values)) - 1]
    return GridWorldAction(direction=best_direction(grid, seen.slip, grid.start, following))


@lru_cache(maxsize=64)
def _values(grid: Grid, slip: float) -> list[Values]:
    return best_values(grid, slip, _HORIZON)
