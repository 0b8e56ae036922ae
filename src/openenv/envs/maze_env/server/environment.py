"""The maze environment."""

import json
from random import Random
from typing import Any
from uuid import uuid4

from openenv.core.env_server.interfaces import Environment
from openenv.envs.maze_env.models import Direction, MazeAction, MazeObservation, MazeState
from openenv.envs.maze_env.server.maze import OPPOSITE, Cell, Maze, neighbour
from openenv.envs.reset_values import refuse_other_keywords, require_whole
from openenv.formats.json_text import json_text

STEP_COST = 0.01
SMALLEST, LARGEST = 2, 50
_STEPS_A_CELL = 4


class MazeEnvironment(Environment[MazeAction, MazeObservation, MazeState]):
    """Go from the north-west corner to the south-east corner. A step costs 0.01, and the goal earns 1."""

    execution = "inline"

    def __init__(self) -> None:
        self._state = MazeState()
        self._maze = Maze(SMALLEST, Random(0))
        self._seed = 0
        self._cell: Cell = (0, 0)
        self._came_from: Direction | None = None

    def reset(
        self,
        seed: int | None = None,
        episode_id: str | None = None,
        size: int = 4,
        max_steps: int | None = None,
        **kwargs: Any,
    ) -> MazeObservation:
        """Carve a maze of size x size cells. max_steps: None for four a cell. Equal seeds carve equal mazes.

        Raises ValueError for another keyword or value.
        """
        refuse_other_keywords(kwargs, ("size", "max_steps"))
        require_whole("size", size, SMALLEST, LARGEST)
        most = _STEPS_A_CELL * size * size if max_steps is None else max_steps
        require_whole("max_steps", most, 1, 1_000_000)
        self._start(Random().getrandbits(32) if seed is None else seed, size)
        self._state = MazeState(
            episode_id=episode_id or str(uuid4()),
            size=size,
            max_steps=most,
            shortest=self._maze.distance(self._cell, self._goal),
        )
        self.success_return = 0.5 - STEP_COST * most  # between a way out at the last step, and none
        return self._observation(reward=None)

    def step(self, action: MazeAction, timeout_s: float | None = None, **kwargs: Any) -> MazeObservation:
        """Go to the neighbouring cell. Raises ValueError where a wall is in the way; the player then stays."""
        if action.direction not in self._maze.doors(self._cell):
            doors = ", ".join(self._maze.doors(self._cell))
            raise ValueError(f"direction={action.direction!r}: there is a wall. Choose one of {doors}.")
        self._state.step_count += 1
        self._cell = neighbour(self._cell, action.direction)
        self._came_from = OPPOSITE[action.direction]
        return self._observation(reward=float(self._cell == self._goal) - STEP_COST)

    def save_state(self) -> bytes:
        """The maze's seed, the player's cell, and the state."""
        place = [self._seed, *self._cell, self._came_from]
        return json_text([place, self._state.model_dump_json()]).encode()

    def load_state(self, snapshot: bytes) -> None:
        """Continue a saved episode."""
        (seed, row, column, came_from), state = json.loads(snapshot)
        self._state = MazeState.model_validate_json(state)
        self._start(seed, self._state.size)
        self._cell, self._came_from = (row, column), came_from

    @property
    def state(self) -> MazeState:
        """The episode's id, its number of steps, and its maze."""
        return self._state

    @property
    def _goal(self) -> Cell:
        return self._maze.size - 1, self._maze.size - 1

    def _start(self, seed: int, size: int) -> None:
        self._seed, self._maze = seed, Maze(size, Random(seed))
        self._cell, self._came_from = (0, 0), None

    def _observation(self, reward: float | None) -> MazeObservation:
        row, column = self._cell
        is_out_of_steps = self._state.step_count >= self._state.max_steps
        return MazeObservation(
            row=row,
            column=column,
            goal_row=self._goal[0],
            goal_column=self._goal[1],
            came_from=self._came_from,
            legal_actions=self._maze.doors(self._cell),
            done=self._cell == self._goal or is_out_of_steps,
            reward=reward,
        )
