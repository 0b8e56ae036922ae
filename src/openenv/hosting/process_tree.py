"""Which processes and threads a process has started, as /proc has them."""

import contextlib
import os


def children_of(pid: int) -> set[int]:
    """The processes that all threads of a process have started; none if it has ended, and where there is no /proc."""
    found: set[int] = set()
    for thread in threads_of(pid):
        with contextlib.suppress(OSError), open(f"/proc/{pid}/task/{thread}/children", "rb", 0) as children:
            found |= set(map(int, children.read().split()))
    return found


def descendants_of(pid: int) -> set[int]:
    """The same with the processes that those have started."""
    children = children_of(pid)
    return children.union(*map(descendants_of, children))


def threads_of(pid: int) -> list[str]:
    """The threads of a process; none if it has ended."""
    try:
        return os.listdir(f"/proc/{pid}/task")
    except OSError:
        return []
