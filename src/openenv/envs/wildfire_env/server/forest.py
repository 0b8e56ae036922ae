"""A forest on fire: cells that spread fire to their neighbours by chance, by wind and by moisture."""

from collections.abc import Iterator
from random import Random

from openenv.envs.wildfire_env.models import Wind

Cell = tuple[int, int]
"""Row and column, from the north-west corner."""

DRY, MOIST, FIRE, BURNT, WET, FIREBREAK = "T", "t", "*", "#", "~", "="
TREES = (DRY, MOIST)
STEPS: dict[Wind, Cell] = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
WINDS: tuple[Wind, ...] = ("none", *STEPS)
BURNING_STEPS = 3
"""Steps that a cell burns."""
REACH = 2
"""Rows and columns between a firebreak and the fire that it is cut for, at most."""
_MOIST_FACTOR = 0.4
"""The chance of fire in moist trees beside that in dry ones."""
_WIND_FACTOR = 0.8
"""What the wind adds to the chance where it blows to, and takes from it where it comes from."""


class Forest:
    """Square of size x size cells, with the steps that each burning one has left."""

    def __init__(self, rows: list[list[str]], wind: Wind, spread: float) -> None:
        """spread: the chance that a burning cell lights dry trees beside it in a step without wind."""
        self.rows = rows
        self.wind = wind
        self.spread = spread
        self.steps_left: dict[Cell, int] = {}
        """Steps until each burning cell is burnt."""

    @property
    def size(self) -> int:
        """Rows, and columns."""
        return len(self.rows)

    @property
    def burning(self) -> list[Cell]:
        """The burning cells, row by row."""
        return sorted(self.steps_left)

    def kind(self, cell: Cell) -> str:
        """The mark of a cell."""
        return self.rows[cell[0]][cell[1]]

    def count_trees(self) -> int:
        """Cells with trees that have not caught fire."""
        return sum(mark in TREES for row in self.rows for mark in row)

    def near_fire(self) -> list[Cell]:
        """Trees within REACH of a burning cell, row by row: where a firebreak can be cut."""
        near = {
            (row + down, column + right)
            for row, column in self.steps_left
            for down in range(-REACH, REACH + 1)
            for right in range(-REACH, REACH + 1)
        }
        return sorted(cell for cell in near if self._is_inside(cell) and self.kind(cell) in TREES)

    def chances(self, cell: Cell) -> Iterator[tuple[Cell, float]]:
        """Each neighbour with trees of a burning cell, and the chance that the cell lights it in a step."""
        for down, right in STEPS.values():
            ahead = (cell[0] + down, cell[1] + right)
            if self._is_inside(ahead) and self.kind(ahead) in TREES:
                yield ahead, self.spread * self._wind_factor(down, right) * self._fuel(ahead)

    def light(self, cell: Cell) -> None:
        """Set a cell on fire."""
        self._mark(cell, FIRE)
        self.steps_left[cell] = BURNING_STEPS

    def put_out(self, cell: Cell) -> None:
        """Drop water on a burning cell, which does not burn again."""
        self._mark(cell, WET)
        del self.steps_left[cell]

    def cut(self, cell: Cell) -> None:
        """Make a firebreak of a cell."""
        self._mark(cell, FIREBREAK)

    def burn(self, rng: Random) -> int:
        """Spread the fire by one step; returns how many cells have caught fire."""
        caught = {ahead for cell in self.burning for ahead, chance in self.chances(cell) if rng.random() < chance}
        for cell in self.burning:
            self.steps_left[cell] -= 1
            if self.steps_left[cell] == 0:
                self._mark(cell, BURNT)
                del self.steps_left[cell]
        for cell in caught:
            self.light(cell)
        return len(caught)

    def board(self) -> str:
        """The rows, a line each."""
        return "\n".join(map("".join, self.rows))

    def _is_inside(self, cell: Cell) -> bool:
        return 0 <= cell[0] < self.size and 0 <= cell[1] < self.size

    def _mark(self, cell: Cell, mark: str) -> None:
        self.rows[cell[0]][cell[1]] = mark

    def _fuel(self, cell: Cell) -> float:
        return 1.0 if self.kind(cell) == DRY else _MOIST_FACTOR

    def _wind_factor(self, down: int, right: int) -> float:
        if self.wind == "none":
            return 1.0
        wind_down, wind_right = STEPS[self.wind]
        return 1.0 + _WIND_FACTOR * (down * wind_down + right * wind_right)


def random_forest(size: int, fires: int, spread: float, moist: float, wind: Wind, rng: Random) -> Forest:
    """A forest with so many burning cells. moist: the share of moist trees."""
    rows = [[MOIST if rng.random() < moist else DRY for _ in range(size)] for _ in range(size)]
    forest = Forest(rows, wind, spread)
    for place in rng.sample(range(size * size), fires):
        forest.light(divmod(place, size))
    return forest
