"""A good player: the shortest path to the food after which the head still reaches its tail, else after the tail."""

from collections import deque
from collections.abc import Sequence
from random import Random

from openenv.envs.snake_env.models import SnakeAction, SnakeObservation
from openenv.envs.snake_env.server.game import STEPS, Cell, beside, turned

Body = tuple[Cell, ...]
"""The cells of a snake, from the head to the tail."""


def safe_action(seen: SnakeObservation, _: Random) -> SnakeAction:
    """The next step of a path to the food that leaves a way out; without one, a step that keeps the tail in reach."""
    size = len(seen.board.split("\n"))
    body: Body = tuple((row, column) for row, column in seen.body)
    food = None if seen.food_row is None or seen.food_column is None else (seen.food_row, seen.food_column)
    path = None if food is None else shortest_path(body, food, size)
    if path is None or not _has_way_out(_after(body, path), size):
        path = [_waiting_step(body, food, size, [beside(body[0], turned(seen.direction, turn)) for turn in (-1, 0, 1)])]
    return SnakeAction(direction=next(step for step in STEPS if beside(body[0], step) == path[0]))


def shortest_path(body: Body, goal: Cell, size: int) -> list[Cell] | None:
    """The cells from the one after the head to the goal, around the body as it lies now; None if there is no path."""
    taken = set(body[:-1])
    parents: dict[Cell, Cell] = {}
    waiting = deque([body[0]])
    while waiting and goal not in parents:
        cell = waiting.popleft()
        for ahead in _neighbours(cell, size):
            if ahead not in taken and ahead not in parents:
                parents[ahead] = cell
                waiting.append(ahead)
    if goal not in parents:
        return None
    path = [goal]
    while parents[path[-1]] != body[0]:
        path.append(parents[path[-1]])
    return path[::-1]


def _after(body: Body, path: Sequence[Cell]) -> Body:
    """The snake at the end of a path to food, with the piece that it has grown."""
    return (*reversed(path), *body)[: len(body) + 1]


def _has_way_out(body: Body, size: int) -> bool:
    """Whether the head reaches the tail, behind which there is always a free cell next; a full board is safe too."""
    return len(body) == size * size or shortest_path(body, body[-1], size) is not None


def _waiting_step(body: Body, food: Cell | None, size: int, steps: Sequence[Cell]) -> Cell:
    """Of the possible steps, the one that keeps the tail farthest but in reach; else a step that is no death."""
    taken = set(body[:-1])
    possible = [cell for cell in steps if _is_inside(cell, size) and cell not in taken]
    ways = {}
    for cell in possible:
        moved = (cell, *body) if cell == food else (cell, *body[:-1])
        way = shortest_path(moved, moved[-1], size)
        ways[cell] = -1 if way is None else len(way)
    return max(possible, key=lambda cell: ways[cell], default=steps[1])


def _neighbours(cell: Cell, size: int) -> list[Cell]:
    return [ahead for ahead in (beside(cell, step) for step in STEPS) if _is_inside(ahead, size)]


def _is_inside(cell: Cell, size: int) -> bool:
    return 0 <= cell[0] < size and 0 <= cell[1] < size
