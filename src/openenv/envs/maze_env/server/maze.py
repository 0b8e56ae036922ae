"""Mazes: cells on a square grid, with one way between any two of them."""

from collections import deque
from random import Random

from openenv.envs.maze_env.models import Direction

Cell = tuple[int, int]
"""Row and column, from the north-west corner."""

STEPS: dict[Direction, Cell] = {"north": (-1, 0), "south": (1, 0), "west": (0, -1), "east": (0, 1)}
OPPOSITE: dict[Direction, Direction] = {"north": "south", "south": "north", "west": "east", "east": "west"}


class Maze:
    """A maze of size x size cells, carved by a random depth-first search."""

    def __init__(self, size: int, rng: Random) -> None:
        self.size = size
        self._doors: dict[Cell, set[Direction]] = {
            (row, column): set() for row in range(size) for column in range(size)
        }
        self._carve(rng)

    def doors(self, cell: Cell) -> list[Direction]:
        """The directions without a wall, in the order north, south, west, east."""
        return [direction for direction in STEPS if direction in self._doors[cell]]

    def distance(self, start: Cell, goal: Cell) -> int:
        """Steps of the way from one cell to another, found by a breadth-first search."""
        distances, waiting = {start: 0}, deque([start])
        while goal not in distances:
            cell = waiting.popleft()
            for direction in self.doors(cell):
                after = neighbour(cell, direction)
                if after not in distances:
                    distances[after] = distances[cell] + 1
                    waiting.append(after)
        return distances[goal]

    def _carve(self, rng: Random) -> None:
        """Open walls until every cell is reached: go on from the newest cell that has a neighbour without a door."""
        path = [(0, 0)]
        while path:
            cell = path[-1]
            closed = [step for step in STEPS if not self._doors.get(neighbour(cell, step), True)]
            if not closed:
                path.pop()
                continue
            direction = rng.choice(closed)
            self._doors[cell].add(direction)
            path.append(neighbour(cell, direction))
            self._doors[path[-1]].add(OPPOSITE[direction])


def neighbour(cell: Cell, direction: Direction) -> Cell:
    """The cell that lies in a direction."""
    row, column = STEPS[direction]
    return cell[0] + row, cell[1] + column
