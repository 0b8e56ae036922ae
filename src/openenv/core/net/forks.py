"""What a forked process does not share with its parent: connections, threads, servers."""

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
