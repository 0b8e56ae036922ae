"""The tasks of the coding environment, and what `openenv envs --measure` plays: all small tasks, one program each."""

import time
from collections.abc import Mapping
from random import Random
from typing import Any

from openenv.envs.coding_env.models import CodeAction, CodeObservation
from openenv.envs.coding_env.problems import ALL, NAMES, make_problem, random_program
from openenv.envs.measured import MeasuredTask


def tasks() -> Mapping[str, Mapping[str, Any]]:
    """The reset keywords of each small task, of all of them, and of an interpreter without a task."""
    return {"interpreter": {}, ALL: {"task": ALL}, **{name: {"task": name} for name in NAMES}}


def solution(seen: CodeObservation, _: Random) -> CodeAction:
    """The program that defines the function."""
    return CodeAction(code=make_problem(ALL, seen.metadata["seed"]).solution)


def _bare(seconds: float) -> float:
    """Programs that `exec` runs in this process, without any sandbox."""
    rng, steps = Random(0), 0
    started = time.perf_counter()
    while time.perf_counter() - started < seconds:
        exec(random_program(rng), {})
        steps += 1
    return steps / (time.perf_counter() - started)


MEASURED = {
    ALL: MeasuredTask(reset={"task": ALL}, play_bare=_bare, heuristic=solution, best_return=1.0, num_episodes=200)
}
