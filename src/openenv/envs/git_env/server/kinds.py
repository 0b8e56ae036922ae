"""All kinds of tasks, and the task of a seed."""

from collections.abc import Callable, Mapping
from random import Random

from openenv.envs.git_env.server import branch_kinds, commit_kinds
from openenv.envs.git_env.server.history import History
from openenv.envs.git_env.server.tasks import Request, Task

KINDS: Mapping[str, Callable[[History], Request]] = {
    kind.__name__: kind
    for kind in (
        commit_kinds.branch_commit,
        commit_kinds.restore_file,
        commit_kinds.amend_message,
        commit_kinds.squash_commits,
        commit_kinds.revert_commit,
        commit_kinds.pick_commit,
        commit_kinds.find_commit,
        commit_kinds.undo_reset,
        branch_kinds.resolve_conflict,
        branch_kinds.rebase_branch,
        branch_kinds.move_commits,
        branch_kinds.delete_merged,
        branch_kinds.tag_release,
        branch_kinds.push_diverged,
    )
}


def make_task(kind: str, level: int, seed: int) -> Task:
    """The task of a seed, whose repositories are not built yet."""
    history = History(Random(f"{kind} {level} {seed}"), level)
    history.begin()
    return Task(request=KINDS[kind](history), history=history)
