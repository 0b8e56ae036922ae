"""Processes: what a forked one does not share with its parent (connections, threads, servers), and which others a
process has started."""

import contextlib
import os
import weakref


class ProcessBound:
    """Has something in use that only the process that opened it may use.

    A forked child inherits the file descriptors. If it wrote to the parent's connection, it would take the parent's
    responses, and its requests would have the parent's ids. Threads are not inherited at all.
    """

    def __init__(self) -> None:
        _BOUND.add(self)

    def leave_to_parent(self) -> None:
        """Called in a forked child: drop what the parent uses, without sending anything."""


_BOUND: "weakref.WeakSet[ProcessBound]" = weakref.WeakSet()


def _leave_to_parent() -> None:
    for bound in list(_BOUND):
        bound.leave_to_parent()


if hasattr(os, "register_at_fork"):  # not on Windows, which has no fork
    os.register_at_fork(after_in_child=_leave_to_parent)


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
