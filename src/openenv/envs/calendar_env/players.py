"""The solver as a player, one tool call at a time."""

from functools import lru_cache, partial
from random import Random
from typing import Any

from openenv.core.env_server.mcp_types import CallToolAction
from openenv.envs.calendar_env.server.environment import MAX_STEPS, CalendarEnvironment
from openenv.envs.calendar_env.solvers.assistant import Assistant


@lru_cache(maxsize=10_000)
def solution(level: int, seed: int) -> tuple[CallToolAction, ...]:
    """The tool calls by which the solver does the task of a seed, of any kind, on a server of its own."""
    environment: Any = CalendarEnvironment()
    calls: list[CallToolAction] = []

    def call(tool_name: str, **arguments: Any) -> Any:
        calls.append(CallToolAction(tool_name=tool_name, arguments=arguments))
        return environment.step(calls[-1]).result.data

    Assistant(environment.reset(seed=seed, level=level).task, call).solve()
    environment.close()
    return tuple(calls)


def _next_call(level: int, seen: Any, _: Random) -> CallToolAction:
    seed, steps_left = int(seen.metadata["seed"]), int(seen.metadata["steps_left"])
    return solution(level, seed)[MAX_STEPS - steps_left]


next_call_of_level_1 = partial(_next_call, 1)
"""The solver as a player that sees one observation at a time: its next call for the seed."""
next_call_of_level_3 = partial(_next_call, 3)
