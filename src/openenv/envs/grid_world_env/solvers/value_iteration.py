"""The best mean return of a grid: `python -m openenv.envs.grid_world_env.solvers.value_iteration`.

Value iteration backwards from the last step that the limit allows, over the outcomes that the environment plays.
"""

import argparse

from openenv.envs.grid_world_env.models import Direction
from openenv.envs.grid_world_env.server.environment import GOAL_REWARD, STEP_COST
from openenv.envs.grid_world_env.server.grid import STEPS, Cell, Grid, read_layout

Values = dict[Cell, float]
"""The best mean return from each cell that the goal can be reached from."""


def best_values(grid: Grid, slip: float, max_steps: int) -> list[Values]:
    """The values with 0, 1, ... max_steps steps left; fewer where more steps change nothing.

    slip: the chance that a step goes to a side.
    """
    cells = grid.distances()
    values = [dict.fromkeys(cells, 0.0)]
    for _ in range(max_steps):
        following = values[-1]
        gains = {cell: max(_gain(grid, slip, cell, step, following) for step in STEPS) for cell in cells}
        values.append({**gains, grid.goal: 0.0})
        if values[-1] == following:
            break
    return values


def best_return(grid: Grid, slip: float, max_steps: int) -> float:
    """The best mean return of an episode."""
    return best_values(grid, slip, max_steps)[-1][grid.start]


def best_direction(grid: Grid, slip: float, cell: Cell, following: Values) -> Direction:
    """The first of the best steps from a cell. following: the values with one step less."""
    return max(STEPS, key=lambda step: _gain(grid, slip, cell, step, following))


def _gain(grid: Grid, slip: float, cell: Cell, direction: Direction, following: Values) -> float:
    """The mean of a step's reward and of what follows."""
    outcomes = grid.outcomes(cell, direction, slip)
    return (
        sum(chance * (GOAL_REWARD * (ahead == grid.goal) + following[ahead]) for chance, ahead in outcomes) - STEP_COST
    )


def main() -> None:
    """Print the best mean return of the grid that the arguments describe."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("layout", nargs="*", default=["S...", ".#.#", "...#", "#..G"], help="Rows of S, G, # and .")
    parser.add_argument("--slip", type=float, default=0.2, help="Chance that a step goes to a side (default 0.2).")
    parser.add_argument("--max-steps", type=int, default=64, help="Steps of an episode (default 64).")
    args = parser.parse_args()
    print(f"{best_return(read_layout(args.layout), args.slip, args.max_steps):.6f}")  # noqa: T201


if __name__ == "__main__":
    main()
