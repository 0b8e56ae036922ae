"""The game of snake: a body on a board, food that appears at random, and the ways in which it ends."""

from collections import deque
from random import Random

from openenv.envs.snake_env.models import Direction, Thing

Cell = tuple[int, int]
"""Row and column, from the north-west corner."""

STEPS: dict[Direction, Cell] = {"north": (-1, 0), "east": (0, 1), "south": (1, 0), "west": (0, -1)}
"""Clockwise."""
CLOCKWISE: tuple[Direction, ...] = tuple(STEPS)
START_LENGTH = 3


def turned(direction: Direction, quarters: int) -> Direction:
    """A direction after so many quarter turns to the right."""
    return CLOCKWISE[(CLOCKWISE.index(direction) + quarters) % 4]


def beside(cell: Cell, direction: Direction) -> Cell:
    """The neighbour in a direction, which may be off the board."""
    row, column = STEPS[direction]
    return cell[0] + row, cell[1] + column


class Game:
    """A snake on a board of size x size cells. It begins in the middle, three cells long, and looks east."""

    def __init__(self, size: int, rng: Random) -> None:
        middle = size // 2
        self.size = size
        self.rng = rng
        self.body: deque[Cell] = deque((middle, middle - part) for part in range(START_LENGTH))
        """From the head to the tail."""
        self.direction: Direction = "east"
        self.steps_since_food = 0
        self.food: Cell | None = None
        """None when the snake fills the board."""
        self.place_food()

    @property
    def head(self) -> Cell:
        """The cell of the head."""
        return self.body[0]

    def what_is_at(self, cell: Cell) -> Thing:
        """What the head would meet. The tail's cell is free, since the tail moves on, unless the snake eats."""
        if not (0 <= cell[0] < self.size and 0 <= cell[1] < self.size):
            return "wall"
        if cell == self.food:
            return "food"
        return "body" if cell in self.body and cell != self.body[-1] else "free"

    def legal(self) -> list[Direction]:
        """All directions but backwards: left, straight on, right."""
        return [turned(self.direction, quarters) for quarters in (-1, 0, 1)]

    def move(self, direction: Direction) -> Thing:
        """Take a step; returns what the head met. At a wall or the body the snake stays as it was."""
        ahead = beside(self.head, direction)
        met = self.what_is_at(ahead)
        self.direction = direction
        self.steps_since_food += 1
        if met in ("wall", "body"):
            return met
        if met == "food":
            self.steps_since_food = 0
        else:
            self.body.pop()
        self.body.appendleft(ahead)
        if met == "food":
            self.place_food()
        return met

    def place_food(self) -> None:
        """Put food on a free cell at random; on none if the snake fills the board."""
        taken = set(self.body)
        free = [(row, column) for row in range(self.size) for column in range(self.size) if (row, column) not in taken]
        self.food = self.rng.choice(free) if free else None

    def board(self) -> str:
        """The rows of the board, a line each: H head, o body, t tail, F food, . free."""
        rows = [["."] * self.size for _ in range(self.size)]
        for row, column in self.body:
            rows[row][column] = "o"
        rows[self.body[-1][0]][self.body[-1][1]] = "t"
        rows[self.head[0]][self.head[1]] = "H"
        if self.food is not None:
            rows[self.food[0]][self.food[1]] = "F"
        return "\n".join(map("".join, rows))
