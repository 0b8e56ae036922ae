"""The solver as a player, one command at a time."""

from functools import lru_cache, partial
from random import Random

from openenv.envs.git_env.models import GitAction, GitObservation
from openenv.envs.git_env.server.environment import MAX_STEPS, GitEnvironment
from openenv.envs.git_env.solvers.committer import Committer


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


def _next_command(level: int, seen: GitObservation, _: Random) -> GitAction:
    return solution(level, seen.metadata["seed"])[MAX_STEPS - seen.steps_left]


next_command_of_level_1 = partial(_next_command, 1)
"""The solver as a player that sees one observation at a time: its next command for the seed."""
next_command_of_level_3 = partial(_next_command, 3)
