"""A player that sees what the agent sees: it goes to the goal, else to a key, else to a door, else it wanders."""

from collections import deque
from collections.abc import Callable, Iterator
from random import Random
from typing import Any

from openenv.envs.minigrid_env.models import MiniGridAction
from openenv.envs.minigrid_env.view import AGENT, Cell, View

_LEFT, _RIGHT, _FORWARD, _PICKUP, _TOGGLE = 0, 1, 2, 3, 5
_STEPS = ((0, -1), (1, 0), (0, 1), (-1, 0))
"""Columns and rows of a step ahead, right, back and left, as the agent looks."""
_STRAIGHT = 0.8
"""How often the wanderer goes on where it can."""
_Pose = tuple[int, int, int]


def walk(observation: Any, rng: Random) -> MiniGridAction:
    """The first action on the shortest way to the best thing in sight; a random walk where there is none."""
    view = View(observation.image)
    held = view.carried
    opens = held.colour if held is not None and held.kind == "key" else None
    aims: list[tuple[Callable[[Cell], bool], int]] = [
        (lambda cell: cell.kind == "goal", _FORWARD),
        (lambda cell: cell.kind == "door" and cell.state == "locked" and cell.colour == opens, _TOGGLE),
        (lambda cell: cell.kind == "key" and held is None, _PICKUP),
        (lambda cell: cell.kind == "door" and cell.state == "closed", _TOGGLE),
    ]
    for is_aim, last_action in aims:
        action = _first_action(view, is_aim, last_action)
        if action is not None:
            return MiniGridAction(action_id=action)
    if view.num_free(0, 1) and rng.random() < _STRAIGHT:
        return MiniGridAction(action_id=_FORWARD)
    return MiniGridAction(action_id=rng.choice((_LEFT, _RIGHT)))


def _first_action(view: View, is_aim: Callable[[Cell], bool], last_action: int) -> int | None:
    """How to begin the shortest way to a cell ahead of which `last_action` is due; None if none is in sight."""
    start = (*AGENT, 0)
    first: dict[_Pose, int | None] = {start: None}
    waiting = deque([start])
    while waiting:
        pose = waiting.popleft()
        ahead = _ahead(view, pose)
        if ahead is not None and is_aim(ahead):
            begun = first[pose]
            return last_action if begun is None else begun
        for action, there in _moves(view, pose):
            if there not in first:
                begun = first[pose]
                first[there] = action if begun is None else begun
                waiting.append(there)
    return None


def _moves(view: View, pose: _Pose) -> Iterator[tuple[int, _Pose]]:
    column, row, direction = pose
    yield _LEFT, (column, row, (direction - 1) % 4)
    yield _RIGHT, (column, row, (direction + 1) % 4)
    ahead = _ahead(view, pose)
    if ahead is not None and ahead.is_free:
        step = _STEPS[direction]
        yield _FORWARD, (column + step[0], row + step[1], direction)


def _ahead(view: View, pose: _Pose) -> Cell | None:
    column, row, direction = pose
    step = _STEPS[direction]
    return view.cell(column + step[0], row + step[1])
