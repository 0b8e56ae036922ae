"""The tasks of MiniWoB++ that can be played, by the names of their files."""

import difflib
from collections.abc import Mapping
from functools import cache
from typing import Any

from openenv.envs.browser_env.server.chromium import task_folder

LEFT_OUT: Mapping[str, str] = {"hover-shape": "its page gives no reward, and ends when the time is up only"}
"""Tasks that cannot be played here, with the reason."""


def tasks() -> Mapping[str, Mapping[str, Any]]:
    """Reset keywords of each task. Raises ImportError without the package miniwob."""
    return {name: {"task": name} for name in task_names()}


@cache
def task_names() -> tuple[str, ...]:
    """The names of the tasks, sorted."""
    found = sorted(path.stem for path in (task_folder() / "miniwob").glob("*.html"))
    return tuple(name for name in found if name not in LEFT_OUT)


def check_task(task: Any) -> str:
    """Return the name. Raises ValueError, with the nearest name or the reason, for one that cannot be played."""
    known = task_names()
    if isinstance(task, str) and task in known:
        return task
    if isinstance(task, str) and task in LEFT_OUT:
        raise ValueError(f"task={task!r} is left out: {LEFT_OUT[task]}.")
    near = difflib.get_close_matches(str(task), known, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"task={task!r:.100} is not among the {len(known)} tasks of `openenv envs --list`.{hint}")
