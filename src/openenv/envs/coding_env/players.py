"""The solutions of the small tasks, and random programs without any sandbox."""

from collections.abc import Iterator
from random import Random
from typing import Any

from openenv.envs.coding_env.models import CodeAction, CodeObservation
from openenv.envs.coding_env.problems import ALL, make_problem, random_program


def solution(seen: CodeObservation, _: Random) -> CodeAction:
    """The program that defines the function."""
    return CodeAction(code=make_problem(ALL, seen.metadata["seed"]).solution)


def random_programs(**_: Any) -> Iterator[int]:
    """Programs that `exec` runs in this process, without any sandbox."""
    rng = Random(0)
    while True:
        exec(random_program(rng), {})
        yield 1
