"""Grids with obstacles: drawn at random or written as rows of text, and where steps on them lead."""

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass
from random import Random
from typing import Any

from openenv.envs.grid_world_env.models import Direction

Cell = tuple[int, int]
"""Row and column, from the north-west corner."""

STEPS: dict[Direction, Cell] = {"north": (-1, 0), "south": (1, 0), "west": (0, -1), "east": (0, 1)}
SIDES: dict[Direction, tuple[Direction, Direction]] = {
    "north": ("west", "east"),
    "south": ("west", "east"),
    "west": ("north", "south"),
    "east": ("north", "south"),
}
LONGEST_SIDE = 20
MOST_DENSE = 0.4
"""The largest chance of an obstacle in a random grid."""
_LAYOUT_RULE = (
    f"expected 1 to {LONGEST_SIDE} rows of equal length, 1 to {LONGEST_SIDE}, of the characters S (start, once), "
    "G (goal, once), # (obstacle) and . (free), with a way from S to G"
)


@dataclass(frozen=True)
class Grid:
    """A rectangle of cells, some of them obstacles."""

    num_rows: int
    num_columns: int
    obstacles: frozenset[Cell]
    start: Cell
    goal: Cell

    def is_free(self, cell: Cell) -> bool:
        """Whether a cell is on the grid and no obstacle."""
        row, column = cell
        return 0 <= row < self.num_rows and 0 <= column < self.num_columns and cell not in self.obstacles

    def free_directions(self, cell: Cell) -> list[Direction]:
        """The directions in which a step leads to another cell, in the order north, south, west, east."""
        return [direction for direction in STEPS if self.is_free(beside(cell, direction))]

    def after(self, cell: Cell, direction: Direction) -> Cell:
        """Where a step that does not slip leads: the next cell, or the same one if that is not free."""
        ahead = beside(cell, direction)
        return ahead if self.is_free(ahead) else cell

    def outcomes(self, cell: Cell, direction: Direction, slip: float) -> list[tuple[float, Cell]]:
        """The chance of each cell to which a step may lead. A cell may occur several times."""
        left, right = SIDES[direction]
        return [
            (1 - slip, self.after(cell, direction)),
            (slip / 2, self.after(cell, left)),
            (slip / 2, self.after(cell, right)),
        ]

    def distances(self) -> dict[Cell, int]:
        """Steps of the shortest way to the goal, by the cell from which there is one."""
        distances, waiting = {self.goal: 0}, deque([self.goal])
        while waiting:
            cell = waiting.popleft()
            for direction in self.free_directions(cell):
                ahead = beside(cell, direction)
                if ahead not in distances:
                    distances[ahead] = distances[cell] + 1
                    waiting.append(ahead)
        return distances

    def board(self, player: Cell) -> str:
        """The rows of the grid, a line each: A player, G goal, # obstacle, . free."""
        marks = {**dict.fromkeys(self.obstacles, "#"), self.goal: "G", player: "A"}
        rows = (
            "".join(marks.get((row, column), ".") for column in range(self.num_columns)) for row in range(self.num_rows)
        )
        return "\n".join(rows)


def beside(cell: Cell, direction: Direction) -> Cell:
    """The neighbour in a direction, which may be off the grid."""
    row, column = STEPS[direction]
    return cell[0] + row, cell[1] + column


def random_grid(size: int, density: float, start: Cell, goal: Cell, rng: Random) -> Grid:
    """A square of size x size cells. Each other cell than start and goal is an obstacle by chance `density`.

    A grid without a way from start to goal is drawn again. density: at most MOST_DENSE, with which this ends soon.
    """
    cells = [(row, column) for row in range(size) for column in range(size)]
    while True:
        obstacles = {cell for cell in cells if rng.random() < density} - {start, goal}
        grid = Grid(size, size, frozenset(obstacles), start, goal)
        if start in grid.distances():
            return grid


def read_layout(layout: Any) -> Grid:
    """The grid that rows of text describe. Raises ValueError with the rule for all others."""
    error = ValueError(f"layout={layout!r:.300}: {_LAYOUT_RULE}.")
    if not isinstance(layout, list | tuple) or not all(isinstance(row, str) for row in layout):
        raise error
    widths = {len(row) for row in layout}
    if not 1 <= len(layout) <= LONGEST_SIDE or len(widths) != 1 or not 1 <= max(widths) <= LONGEST_SIDE:
        raise error
    starts, goals, obstacles = (_marked(layout, mark) for mark in "SG#")
    if len(starts) != 1 or len(goals) != 1 or not set("".join(layout)) <= set("SG#."):
        raise error
    grid = Grid(len(layout), max(widths), frozenset(obstacles), starts[0], goals[0])
    if grid.start not in grid.distances():
        raise error
    return grid


def _marked(layout: Sequence[str], mark: str) -> list[Cell]:
    return [(y, x) for y, row in enumerate(layout) for x, character in enumerate(row) if character == mark]
