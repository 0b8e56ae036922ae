"""The grid world environment."""

import json
from random import Random
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.envs.grid_world_env.models import GridWorldAction, GridWorldObservation, GridWorldState
from openenv.envs.grid_world_env.server.grid import LONGEST_SIDE, MOST_DENSE, Cell, Grid, random_grid, read_layout
from openenv.envs.reset_values import (
    random_state,
    refuse_other_keywords,
    require_number,
    require_whole,
    restored_random,
)
from openenv.formats.json_text import json_text

STEP_COST = 0.01
GOAL_REWARD = 1.0
MOST_STEPS = 10_000
DRAWN = ("size", "density", "start", "goal")
"""Keywords of a random grid, which a layout replaces."""
_STEPS_A_CELL = 4


class GridWorldEnvironment(Environment[GridWorldAction, GridWorldObservation, GridWorldState]):
    """Go to the goal around the obstacles. A step costs 0.01, and the goal earns 1. A step may slip to a side."""

    execution = "inline"

    def __init__(self) -> None:
        self._state = GridWorldState()
        self._grid = read_layout(["SG"])
        self._cell: Cell = self._grid.start
        self._rng = Random(0)

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        slip: float = 0.0,
        max_steps: int | None = None,
        layout: list[str] | None = None,
        **kwargs: Any,
    ) -> GridWorldObservation:
        """Draw a grid, or take the one of `layout`. Equal seeds give equal grids, and equal slips.

        Args:
            size: cells of each side.
            density: the chance of an obstacle.
            start, goal: [row, column], or None for the north-west and the south-east corner.
            layout: rows of S, G, # and . in place of these four.
            slip: the chance that a step goes to a side.
            max_steps: None for four a cell.

        Raises:
            ValueError: for another keyword or value.
        """
        given = {name: kwargs.pop(name) for name in DRAWN if name in kwargs}
        refuse_other_keywords(kwargs, (*DRAWN, "layout", "slip", "max_steps"))
        chance = require_number("slip", slip, 0, 1)
        seed = Random().getrandbits(32) if seed is None else seed
        rng = Random(seed)
        grid = _drawn(rng, **given) if layout is None else _written(layout, given)
        most = _STEPS_A_CELL * grid.num_rows * grid.num_columns if max_steps is None else max_steps
        require_whole("max_steps", most, 1, MOST_STEPS)
        self._grid, self._cell, self._rng = grid, grid.start, rng
        self._state = GridWorldState(
            episode_id=episode_id or str(uuid4()),
            num_rows=grid.num_rows,
            num_columns=grid.num_columns,
            slip=chance,
            max_steps=most,
            shortest=grid.distances()[grid.start],
            seed=seed,
        )
        self.success_return = GOAL_REWARD / 2 - STEP_COST * most  # between a goal at the last step, and none
        return self._observation(reward=None, metadata={"seed": seed})

    def step(self, action: GridWorldAction, timeout_s: float | None = None, **kwargs: Any) -> GridWorldObservation:
        """Go to the neighbouring cell, or to a side where the step slips; stay where it is not free."""
        outcomes = self._grid.outcomes(self._cell, action.direction, self._state.slip)
        chances, cells = zip(*outcomes, strict=True)
        (self._cell,) = self._rng.choices(cells, chances)
        self._state.step_count += 1
        return self._observation(reward=GOAL_REWARD * (self._cell == self._grid.goal) - STEP_COST, metadata={})

    def save_state(self) -> bytes:
        """The grid, the player's cell, the random numbers and the state."""
        grid = self._grid
        saved = {
            "grid": [grid.num_rows, grid.num_columns, sorted(grid.obstacles), grid.start, grid.goal],
            "cell": self._cell,
            "rng": random_state(self._rng),
            "state": self._state.model_dump(),
        }
        return json_text(saved).encode()

    def load_state(self, snapshot: bytes) -> None:
        """Continue a saved episode."""
        saved = json.loads(snapshot)
        num_rows, num_columns, obstacles, start, goal = saved["grid"]
        self._grid = Grid(num_rows, num_columns, frozenset(map(tuple, obstacles)), tuple(start), tuple(goal))
        self._cell, self._rng = tuple(saved["cell"]), restored_random(saved["rng"])
        self._state = GridWorldState(**saved["state"])

    @property
    def state(self) -> GridWorldState:
        """The episode's id, its number of steps, and its grid."""
        return self._state

    def _observation(self, reward: float | None, metadata: dict[str, Any]) -> GridWorldObservation:
        state, (goal_row, goal_column) = self._state, self._grid.goal
        steps_left = state.max_steps - state.step_count
        return GridWorldObservation(
            row=self._cell[0],
            column=self._cell[1],
            goal_row=goal_row,
            goal_column=goal_column,
            free=self._grid.free_directions(self._cell),
            slip=state.slip,
            steps_left=steps_left,
            board=self._grid.board(self._cell),
            done=self._cell == self._grid.goal or steps_left == 0,
            reward=reward,
            metadata=metadata,
        )


def _drawn(rng: Random, size: Any = 5, density: Any = 0.3, start: Any = None, goal: Any = None) -> Grid:
    """A random grid. Raises ValueError for a wrong value."""
    require_whole("size", size, 2, LONGEST_SIDE)
    chance = require_number("density", density, 0, MOST_DENSE)
    first = _cell("start", [0, 0] if start is None else start, size)
    last = _cell("goal", [size - 1, size - 1] if goal is None else goal, size)
    if first == last:
        raise ValueError(f"goal={list(last)}: the start is there. Choose two different cells.")
    return random_grid(size, chance, first, last, rng)


def _cell(name: str, value: Any, size: int) -> Cell:
    if not isinstance(value, list | tuple) or len(value) != 2:
        raise ValueError(f"{name}={value!r}: expected [row, column], two whole numbers from 0 to {size - 1}.")
    row, column = (require_whole(name, part, 0, size - 1) for part in value)
    return row, column


def _written(layout: Any, given: dict[str, Any]) -> Grid:
    """The grid of a layout. Raises ValueError for a wrong one, and where something else describes the grid as well."""
    if given:
        raise ValueError(f"layout describes the whole grid: leave out {', '.join(given)}.")
    return read_layout(layout)
