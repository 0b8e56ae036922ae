"""The shortest way to the goal of a grid that is known as a whole, by breadth-first search.

`python -m openenv.envs.minigrid_env.solvers.shortest MiniGrid-DoorKey-5x5-v0` prints the mean return of best play.
"""

import argparse
from collections import deque
from collections.abc import Iterator
from math import sqrt
from statistics import fmean, stdev
from typing import Any, NamedTuple

import gymnasium
import minigrid  # noqa: F401  registers its ids

_LEFT, _RIGHT, _FORWARD, _PICKUP, _TOGGLE = 0, 1, 2, 3, 5
_STEPS = ((1, 0), (0, 1), (-1, 0), (0, -1))
"""Of the directions east, south, west and north."""
_FREE = frozenset({None, "floor", "goal"})

Place = tuple[int, int]


class _Situation(NamedTuple):
    """Where the agent is, and what it has changed."""

    place: Place
    direction: int
    key: str | None
    """The colour of the key that it carries."""
    taken: frozenset[Place]
    """Where there was a key."""
    opened: frozenset[Place]
    """Doors that were shut."""


def shortest_plan(env: gymnasium.Env[Any, Any]) -> list[int] | None:
    """The fewest actions that lead to a goal after a reset; None if none do.

    It turns, walks, picks up keys and opens doors. It drops nothing, so that one key at most is of use.
    """
    world: Any = env.unwrapped
    column, row = map(int, world.agent_pos)
    start = _Situation((column, row), int(world.agent_dir), None, frozenset(), frozenset())
    came_from: dict[_Situation, tuple[_Situation, int] | None] = {start: None}
    waiting = deque([start])
    while waiting:
        here = waiting.popleft()
        if _kind(world, here, here.place) == "goal":
            return _actions_to(here, came_from)
        for action, there in _moves(world, here):
            if there not in came_from:
                came_from[there] = here, action
                waiting.append(there)
    return None


def best_return(env: gymnasium.Env[Any, Any]) -> float:
    """The return of the shortest plan after a reset. Raises ValueError where there is none."""
    plan = shortest_plan(env)
    if plan is None:
        raise ValueError("no plan of turning, walking, picking up one key and opening doors leads to a goal")
    world: Any = env.unwrapped
    return 1 - 0.9 * len(plan) / float(world.max_steps)


def _moves(world: Any, here: _Situation) -> Iterator[tuple[int, _Situation]]:
    for action, turn in ((_LEFT, -1), (_RIGHT, 1)):
        yield action, here._replace(direction=(here.direction + turn) % 4)
    step = _STEPS[here.direction]
    ahead = here.place[0] + step[0], here.place[1] + step[1]
    kind = _kind(world, here, ahead)
    if kind in _FREE:
        yield _FORWARD, here._replace(place=ahead)
    elif kind == "key" and here.key is None:
        yield _PICKUP, here._replace(key=world.grid.get(*ahead).color, taken=here.taken | {ahead})
    elif kind == "door":
        door = world.grid.get(*ahead)
        if not door.is_locked or door.color == here.key:
            yield _TOGGLE, here._replace(opened=here.opened | {ahead})


def _kind(world: Any, here: _Situation, place: Place) -> str | None:
    """What stands in a cell; None for an empty one and an open door."""
    cell = world.grid.get(*place)
    if cell is None or place in here.taken or place in here.opened or (cell.type == "door" and cell.is_open):
        return None
    return str(cell.type)


def _actions_to(end: _Situation, came_from: dict[_Situation, tuple[_Situation, int] | None]) -> list[int]:
    actions: list[int] = []
    step = came_from[end]
    while step is not None:
        actions.append(step[1])
        step = came_from[step[0]]
    return actions[::-1]


def main() -> None:
    """Print the mean return of best play over some seeds, with its 95 % interval."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("env_ids", nargs="+", help="Ids of environments whose mission is to get to the goal.")
    parser.add_argument("--seeds", type=int, default=1000, help="Seeds from 0 (default %(default)s).")
    args = parser.parse_args()
    for env_id in args.env_ids:
        env = gymnasium.make(env_id, disable_env_checker=True)
        returns = [best_return(env) for seed in range(args.seeds) if env.reset(seed=seed)]
        half = 1.96 * stdev(returns) / sqrt(len(returns)) if len(returns) > 1 else 0.0
        print(f"{env_id:<36} {fmean(returns):.5f} +- {half:.5f}")  # noqa: T201


if __name__ == "__main__":
    main()
