"""The tasks of git, and what `openenv envs --measure` plays: all kinds at two levels, at random and by a solver."""

from collections.abc import Callable, Mapping
from functools import lru_cache
from random import Random
from typing import Any

from openenv.envs.git_env.models import EXAMPLES, GitAction
from openenv.envs.git_env.server.environment import LEVELS, MAX_STEPS, GitEnvironment
from openenv.envs.git_env.server.kinds import KINDS
from openenv.envs.git_env.solvers.committer import Committer
from openenv.envs.measured import MeasuredTask, in_process


def tasks() -> Mapping[str, Mapping[str, Any]]:
    """The reset keywords of each kind of task at each level."""
    levels = range(LEVELS[0], LEVELS[1] + 1)
    return {f"{kind}/level-{level}": {"kind": kind, "level": level} for kind in KINDS for level in levels}


@lru_cache(maxsize=10_000)
def solution(level: int, seed: int) -> tuple[GitAction, ...]:
    """The commands by which the solver does the task of a seed, of any kind, in repositories of its own."""
    environment = GitEnvironment()
    actions: list[GitAction] = []

    def run(*words: str, content: str = "") -> str:
        actions.append(GitAction(command=list(words), content=content))
        return environment.step(actions[-1]).stdout

    Committer(environment.reset(seed=seed, level=level).task, run).solve()
    environment.close()
    return tuple(actions)


def _solver(level: int) -> Callable[[Any, Random], Any]:
    """The solver as a player that sees one observation at a time: its next command for the seed."""

    def choose(observation: Any, _: Random) -> Any:
        return solution(level, observation.metadata["seed"])[MAX_STEPS - observation.steps_left]

    return choose


def _random(_: Any, rng: Random) -> GitAction:
    return GitAction(command=rng.choice(EXAMPLES))


MEASURED = {
    f"any/level-{level}": MeasuredTask(
        reset={"level": level},
        play_bare=in_process(GitEnvironment, _random, level=level),
        heuristic=_solver(level),
        best_return=1.0,
        num_episodes=300,
    )
    for level in LEVELS
}
