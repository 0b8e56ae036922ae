"""Checks tasks that come with a solution and tests: the solution must score 1, and an agent that does nothing 0."""

import time
from collections.abc import Callable

from openenv.dialects.harbor.environment import HarborTasks
from openenv.dialects.harbor.episode import HarborEpisode
from openenv.dialects.harbor.task import SOLUTION, TESTS, HarborTask
from openenv.dialects.names import HARBOR, target_and_arguments
from openenv.evaluation.quality.target import CheckResult, CheckRow, failed, passed, skipped, warned

_REMEDY = f"correct {TESTS}, or {SOLUTION}"


def check_solutions(name: str, deadline: float, on_check: Callable[[str], None]) -> list[CheckRow]:
    """A row for the solutions of the tasks of `harbor:...`, and one for no action; none for another name.

    deadline: of all tasks together, in seconds of the monotonic clock.
    """
    if not name.startswith(HARBOR):
        return []
    target, arguments = target_and_arguments(name)
    tasks, rows = HarborTasks(target.removeprefix(HARBOR), arguments), []
    for check, is_solved in (("solution", True), ("no action", False)):
        on_check(check)
        started = time.monotonic()
        result = _checked(tasks, deadline, is_solved=is_solved)
        rows.append(CheckRow(check, result, time.monotonic() - started))
    return rows


def _checked(tasks: HarborTasks, deadline: float, *, is_solved: bool) -> CheckResult:
    wanted = [task for task in tasks.by_name.values() if task.has_solution or not is_solved]
    what = "its solution" if is_solved else "doing nothing"
    if not wanted:
        return skipped(f"no task has {SOLUTION}")
    for number, task in enumerate(wanted):
        if time.monotonic() > deadline:
            return warned(f"{number} of {len(wanted)} tasks were checked", "give more time with --seconds")
        try:
            problem = _problem(tasks, task, is_solved=is_solved)
        except (RuntimeError, ValueError, OSError) as error:  # tests without a reward, a sandbox that fails
            problem = str(error)
        if problem:
            return failed(f"task {task.name}, {what}: {problem}", _REMEDY)
    return passed(f"{what} scores {float(is_solved):g} in {len(wanted)} of {len(tasks.by_name)} tasks")


def _problem(tasks: HarborTasks, task: HarborTask, *, is_solved: bool) -> str:
    """What is wrong with the reward of a task; empty if nothing is."""
    episode: HarborEpisode = tasks.begin(task)
    try:
        solved = episode.solve() if is_solved else None
        ended = episode.call("submit", {})
    finally:
        episode.close()
    if ended.reward == float(is_solved):
        return ""
    said = "" if solved is None else f" {SOLUTION}: {solved.output[-500:].strip()} (exit code {solved.exit_code})."
    return f"the reward is {ended.reward}.{said} {TESTS}: {ended.metadata.get('tests', '')[-500:]}"
