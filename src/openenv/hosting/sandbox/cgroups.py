"""Control groups: limits that hold for all processes of a sandbox together, and one write that kills them all.

Version 2 of the kernel's interface, or version 1 with the kill of a version 2 tree beside it. A group of the server
holds one group of each sandbox. Standard library only: the process that starts sandboxes uses it.
"""

import contextlib
import os
import time
from collections.abc import Mapping
from pathlib import Path

ROOT = Path("/sys/fs/cgroup")
_PREFIX = "openenv-"
_CPU_PERIOD_US = 100_000
_EMPTY_TIMEOUT_S = 2.0
CONTROLLERS = ("memory", "pids", "cpu")


class Hierarchy:
    """Where groups are made: a folder for each controller, and one with `cgroup.kill`."""

    def __init__(self, folders: Mapping[str, Path], kill: Path | None) -> None:
        self.folders = folders
        self.kill = kill
        self.is_v2 = kill is not None and kill in folders.values()

    @property
    def roots(self) -> set[Path]:
        """All folders in which a group has to be made."""
        return {*self.folders.values(), *([] if self.kill is None else [self.kill])}


def find_hierarchy(root: Path = ROOT) -> Hierarchy:
    """The controllers in which this process may make groups; none where it may not."""
    own = _own_group(root)
    if (root / "cgroup.controllers").exists():
        enabled = (own / "cgroup.subtree_control").read_text(encoding="utf-8").split() if own.is_dir() else []
        usable = [name for name in CONTROLLERS if name in enabled] if os.access(own, os.W_OK) else []
        return Hierarchy(dict.fromkeys(usable, own), own if usable else None)
    folders = {name: root / name for name in CONTROLLERS if os.access(root / name, os.W_OK)}
    unified = root / "unified"
    return Hierarchy(folders, unified if os.access(unified, os.W_OK) else None)


def _own_group(root: Path) -> Path:
    """The group of version 2 in which this process is."""
    for line in Path("/proc/self/cgroup").read_text(encoding="utf-8").splitlines():
        if line.startswith("0::"):
            return root / line[3:].lstrip("/")
    return root


class Cgroup:
    """One group, of a sandbox or of a server."""

    def __init__(self, hierarchy: Hierarchy, name: str) -> None:
        self._hierarchy = hierarchy
        self._folders = {root / name for root in hierarchy.roots}
        self._of = {controller: folder / name for controller, folder in hierarchy.folders.items()}
        self._kill = None if hierarchy.kill is None else hierarchy.kill / name

    def create(self) -> None:
        """Make the group, in a group that exists. Raises OSError."""
        for folder in self._folders:
            if self._hierarchy.is_v2:
                (folder.parent / "cgroup.subtree_control").write_text(
                    " ".join(f"+{name}" for name in self._of), encoding="utf-8"
                )
            folder.mkdir()

    def limit(self, memory_bytes: int, processes: int, cpus: float) -> None:
        """Set the limits that the hierarchy has."""
        quota = int(cpus * _CPU_PERIOD_US)
        if self._hierarchy.is_v2:
            self._write("memory", "memory.max", memory_bytes)
            self._write("memory", "memory.swap.max", 0)
            self._write("pids", "pids.max", processes)
            self._write("cpu", "cpu.max", f"{quota} {_CPU_PERIOD_US}")
        else:
            self._write("memory", "memory.limit_in_bytes", memory_bytes)
            self._write("memory", "memory.memsw.limit_in_bytes", memory_bytes)
            self._write("pids", "pids.max", processes)
            self._write("cpu", "cpu.cfs_quota_us", quota)

    def enter(self) -> None:
        """Move this process, and those that it starts from now on, into the group."""
        for folder in self._folders:
            (folder / "cgroup.procs").write_text("0", encoding="utf-8")

    def kill(self) -> None:
        """Kill all processes of the group."""
        if self._kill is not None and (self._kill / "cgroup.kill").exists():
            (self._kill / "cgroup.kill").write_text("1", encoding="utf-8")
        for pid in self.pids():
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, 9)

    def is_empty(self) -> bool:
        """Whether no process is left in the group."""
        return not self.pids()

    def pids(self) -> set[int]:
        """The processes of the group."""
        found: set[int] = set()
        for folder in self._folders:
            with contextlib.suppress(OSError):
                found |= set(map(int, (folder / "cgroup.procs").read_text(encoding="utf-8").split()))
        return found

    def out_of_memory_kills(self) -> int:
        """How many processes the kernel has killed because the memory was used up."""
        name = "memory.events" if self._hierarchy.is_v2 else "memory.oom_control"
        return self._count("memory", name, "oom_kill")

    def refused_processes(self) -> int:
        """How many processes and threads were refused because there were too many."""
        return self._count("pids", "pids.events", "max")

    def peak_memory_bytes(self) -> int:
        """The most memory that was used at one time; 0 where it is not known."""
        name = "memory.peak" if self._hierarchy.is_v2 else "memory.max_usage_in_bytes"
        try:
            return int((self._of["memory"] / name).read_text(encoding="utf-8"))
        except (KeyError, OSError):
            return 0

    def remove(self) -> None:
        """Kill what is left, and remove the group. Raises OSError if processes do not end."""
        deadline = time.monotonic() + _EMPTY_TIMEOUT_S
        self.kill()
        for folder in self._folders:
            while folder.exists():
                try:
                    folder.rmdir()
                except OSError:
                    if time.monotonic() > deadline:
                        raise
                    self.kill()
                    time.sleep(0.001)

    def _write(self, controller: str, name: str, value: object) -> None:
        folder = self._of.get(controller)
        if folder is not None and (folder / name).exists():
            (folder / name).write_text(str(value), encoding="utf-8")

    def _count(self, controller: str, name: str, word: str) -> int:
        """The number behind a word in a file of the group; 0 where there is none."""
        try:
            lines = (self._of[controller] / name).read_text(encoding="utf-8").splitlines()
        except (KeyError, OSError):
            return 0
        return next((int(line.split()[1]) for line in lines if line.split()[0] == word), 0)


def server_group(pid: int) -> str:
    """The name of the group that holds the sandboxes of a process."""
    return f"{_PREFIX}{pid}"


def remove_groups_of_ended_servers(hierarchy: Hierarchy) -> None:
    """Remove the groups of processes that no longer exist, with all that runs in them."""
    for root in hierarchy.roots:
        for folder in root.glob(f"{_PREFIX}*"):
            number = folder.name.removeprefix(_PREFIX)
            if number.isdigit() and not Path(f"/proc/{number}").exists():
                remove_group(hierarchy, folder.name)


def remove_group(hierarchy: Hierarchy, name: str) -> None:
    """Remove a group with the groups in it, and all that runs in them."""
    for inner in {folder.name for root in hierarchy.roots for folder in (root / name).glob("*/")}:
        Cgroup(hierarchy, f"{name}/{inner}").remove()
    Cgroup(hierarchy, name).remove()
