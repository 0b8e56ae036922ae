"""What the image of an observation shows, without numpy or MiniGrid: the cells ahead of the agent."""

from collections.abc import Iterator
from typing import Any, NamedTuple

OBJECTS = ("unseen", "empty", "wall", "floor", "door", "key", "ball", "box", "goal", "lava", "agent")
COLOURS = ("red", "green", "blue", "purple", "yellow", "grey")
DOOR_STATES = ("open", "closed", "locked")
DIRECTIONS = ("east", "south", "west", "north")
SIZE = 7
AGENT = (SIZE // 2, SIZE - 1)
"""Column and row of the agent, which looks to row 0."""
_WALKABLE = frozenset({"empty", "floor", "goal"})


class Cell(NamedTuple):
    """One cell of the view."""

    kind: str
    colour: str
    state: str
    """Of a door; other things are `open`."""

    @property
    def is_free(self) -> bool:
        """Whether the agent can walk there and live."""
        return self.kind in _WALKABLE or (self.kind == "door" and self.state == "open")

    @property
    def words(self) -> str:
        """Such as `locked red door`, `green ball`, `goal`."""
        if self.kind in ("goal", "lava"):
            return self.kind
        return f"{self.state} {self.colour} {self.kind}" if self.kind == "door" else f"{self.colour} {self.kind}"


class View:
    """The cells that an observation shows, by column and row."""

    def __init__(self, image: Any) -> None:
        """image: [7, 7, 3], an array or nested lists."""
        rows = image.tolist() if hasattr(image, "tolist") else image
        self._cells = [
            [Cell(OBJECTS[kind], COLOURS[colour], DOOR_STATES[state]) for kind, colour, state in column]
            for column in rows
        ]

    def cell(self, column: int, row: int) -> Cell | None:
        """The cell there; None outside of the view."""
        return self._cells[column][row] if 0 <= column < SIZE and 0 <= row < SIZE else None

    @property
    def carried(self) -> Cell | None:
        """What the agent carries."""
        held = self._cells[AGENT[0]][AGENT[1]]
        return held if held.kind in ("key", "ball", "box") else None

    def things(self) -> Iterator[tuple[Cell, int, int]]:
        """The things in sight, the nearest first, with their distance ahead, and to the right (negative: left)."""
        places = [(column, row) for column in range(SIZE) for row in range(SIZE) if (column, row) != AGENT]
        for column, row in sorted(places, key=lambda place: (_distance(*place), place)):
            cell = self._cells[column][row]
            if cell.kind in ("door", "key", "ball", "box", "goal", "lava"):
                yield cell, AGENT[1] - row, column - AGENT[0]

    def num_free(self, right: int, ahead: int) -> int:
        """How many cells are free in a line from the agent, in steps of (right, ahead)."""
        column, row = AGENT
        for count in range(SIZE):
            column, row = column + right, row - ahead
            cell = self.cell(column, row)
            if cell is None or not cell.is_free:
                return count
        return SIZE


def _distance(column: int, row: int) -> int:
    return abs(column - AGENT[0]) + abs(row - AGENT[1])
