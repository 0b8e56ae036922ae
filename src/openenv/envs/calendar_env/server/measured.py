"""The tasks of the calendars, and what `openenv envs --measure` plays: all kinds at two levels, and a solver."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from random import Random
from typing import Any

from openenv.core.env_server.mcp_types import CallToolAction, ListToolsAction
from openenv.envs.calendar_env.server.environment import MAX_STEPS, CalendarEnvironment
from openenv.envs.calendar_env.server.task_kinds import KINDS
from openenv.envs.calendar_env.server.world import LEVELS
from openenv.envs.calendar_env.solvers.assistant import Assistant
from openenv.envs.measured import MeasuredTask, in_process
from openenv.text.action_forms import ToolForm


def tasks() -> Mapping[str, Mapping[str, Any]]:
    """The reset keywords of each kind of task at each level."""
    return {f"{kind}/level-{level}": {"kind": kind, "level": level} for kind in KINDS for level in LEVELS}


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


def _solver(level: int) -> Callable[[Any, Random], Any]:
    """The solver as a player that sees one observation at a time: its next call for the seed."""

    def choose(observation: Any, _: Random) -> Any:
        metadata = observation.metadata
        return solution(level, metadata["seed"])[MAX_STEPS - metadata["steps_left"]]

    return choose


def _random(_: Any, rng: Random) -> Any:
    return _form().parse(_form().random_reply(rng, ""))


@lru_cache(maxsize=1)
def _form() -> ToolForm:
    environment: Any = CalendarEnvironment()
    form = ToolForm(environment.step(ListToolsAction()).tools)
    environment.close()
    return form


MEASURED = {
    f"any/level-{level}": MeasuredTask(
        reset={"level": level},
        play_bare=in_process(CalendarEnvironment, _random, level=level),
        heuristic=_solver(level),
        best_return=1.0,
        num_episodes=300,
    )
    for level in (1, 3)
}
