"""A sandbox that runs: its processes, what it has used, and how its processes are killed."""

import contextlib
import os
import signal
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from openenv.hosting.process_tree import children_of
from openenv.hosting.sandbox.cgroups import Cgroup
from openenv.hosting.sandbox.limits import SandboxLimits

OUT_OF_MEMORY = "out of memory"


@dataclass
class Box:
    """A sandbox that was started and has not been ended."""

    pid: int
    cgroup: Cgroup | None
    directory: str | None
    """Its working directory, if it is one of this machine."""
    uid: int | None
    """Its user, where it has one of its own."""
    limits: SandboxLimits
    file_systems: tuple[str, ...]
    """Where it has a file system of its own in memory."""
    checks: frozenset[str]
    """The layers that `watch.Watch` checks."""
    status: int | None = None
    """How its first process ended, as `os.wait` says it."""
    killed: set[int] = field(default_factory=set)
    """Its processes that were killed one by one, without a control group."""
    over: str = ""
    """The limit of the whole sandbox that it was over when it was killed; empty: none."""
    shared: dict[bytes, int] = field(default_factory=dict)
    """The sizes of its shared memory, as the last check has found them."""

    def used(self) -> dict[str, int | str]:
        """What its control group has counted, and the limit that it was over."""
        group = self.cgroup
        return {
            "out_of_memory": (0 if group is None else group.out_of_memory_kills()) + (self.over == OUT_OF_MEMORY),
            "refused_processes": 0 if group is None else group.refused_processes(),
            "peak_memory_bytes": 0 if group is None else group.peak_memory_bytes(),
            "over": self.over,
        }

    def poll(self) -> None:
        """Look whether its first process has ended."""
        if self.status is None:
            pid, status = os.waitpid(self.pid, os.WNOHANG)
            self.status = status if pid else None

    def processes(self, orphans: Iterable[int]) -> Iterator[int]:
        """Its processes. orphans: those that have lost their parent. They are found while this is iterated."""
        if self.cgroup is not None:
            yield from self.cgroup.pids()
            return
        pending = [self.pid, *orphans]
        while pending:
            yield (pid := pending.pop())
            pending += children_of(pid)


def session_of(pid: int) -> int:
    """The session of a process, which is the first process of its sandbox unless it has left it; 0 if it has ended."""
    try:
        return os.getsid(pid)
    except ProcessLookupError:
        return 0


def kill_tree(pid: int) -> set[int]:
    """Kill a process and all that descend from it, and return them. None can start another one first."""
    import resource  # Windows, where the package is imported too, has none

    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(pid, signal.SIGKILL)  # most of them, also those that fork without end, at once
    pending, killed = [pid], set()
    while pending:
        member = pending.pop()
        killed.add(member)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            resource.prlimit(member, resource.RLIMIT_NPROC, (0, 0))
        pending += children_of(member)
        with contextlib.suppress(ProcessLookupError):
            os.kill(member, signal.SIGKILL)
    return killed
