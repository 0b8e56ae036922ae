"""Limits of a whole sandbox where the kernel has none: each is checked several times a second.

A control group limits the memory and the processes of a sandbox in sum, and a file system of its own limits its files.
An ordinary user, or a container, often has neither. What is used between two checks comes on top of these limits.
"""

import contextlib
import ctypes
import os
import stat
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path

from openenv.hosting.process_tree import threads_of
from openenv.hosting.sandbox.box import OUT_OF_MEMORY, Box
from openenv.hosting.sandbox.box_spec import INSIDE, Level

PERIOD_S = 0.25
_REST, _MOST_REST_S = 20, 2.0
"""After a round of checks, nothing is checked for so many times what it took, which is 5 % of a processor. Programs can
make checks take long, and then do not have that much time."""
_FILES_AT_ONCE = 500
_BYTES_OF_INODE = 1024
"""Memory of a file of a tmpfs beside its content, about."""


def checked_layers(level: Level, controllers: Iterable[str], *, is_root: bool) -> frozenset[str]:
    """The layers that have to be checked. controllers: those of the control groups that may be made.

    A user of its own, which a sandbox has as root and in a namespace of users, has a limit of processes of its own.
    """
    is_apart = level == "namespaces"
    layers = {
        "memory": "memory" not in controllers,
        "processes": "pids" not in controllers and not is_apart and not is_root,
        "session size": not is_apart,
    }
    return frozenset(layer for layer, is_checked in layers.items() if is_checked)


class Watch:
    """Checks sandboxes, a little at a time: starts and ends of others meanwhile wait for milliseconds."""

    def __init__(
        self, boxes: Mapping[int, Box], orphans_of: Callable[[Box], set[int]], kill: Callable[[Box], object]
    ) -> None:
        """
        Args:
            boxes: by their numbers, as they come and go.
            orphans_of: processes of one that have lost their parent.
            kill: kills the processes of one that is over a limit.
        """
        self._boxes = boxes
        self._orphans_of = orphans_of
        self._kill = kill
        self._round: Iterator[None] = iter(())
        self._took_s = 0.0
        self._next = 0.0

    def wait_s(self) -> float | None:
        """Seconds until there is something to check; None: nothing is."""
        if not any(box.checks for box in self._boxes.values()):
            return None
        return max(0.0, self._next - time.monotonic())

    def step(self) -> None:
        """Check one process, or some files, if it is time to."""
        if time.monotonic() < self._next:
            return
        started = time.process_time()
        has_ended = next(self._round, False) is False
        self._took_s += time.process_time() - started
        if has_ended:
            self._next = time.monotonic() + max(PERIOD_S, min(_REST * self._took_s, _MOST_REST_S))
            self._round, self._took_s = self._check_all(), 0.0

    def _check_all(self) -> Iterator[None]:
        for number, box in list(self._boxes.items()):
            if not box.checks or box.status is not None:
                continue
            for over in [box.over] if box.over else _limits_passed(box, self._orphans_of(box)):
                if number not in self._boxes:
                    break  # it was ended meanwhile
                if over:
                    box.over = over
                    self._kill(box)
                yield
                if over:
                    break


def _limits_passed(box: Box, orphans: set[int]) -> Iterator[str]:
    """After each part of a check, the limit that a sandbox is over, or nothing."""
    pids, num_threads = [], 0
    for pid in box.processes(orphans):  # first, and quickly: programs that fork without end leave little time
        pids.append(pid)
        num_threads += len(threads_of(pid))
        if "processes" in box.checks and num_threads > box.limits.processes:
            yield "too many processes"
    memory, files_of_box = 0, None
    shared: dict[bytes, int] = {}
    deleted: dict[tuple[int, int], int] = {}
    for pid in pids:
        with _reading_as(box.uid):
            if "memory" in box.checks:
                memory += _private_bytes(pid)
                for inode, size in _shared_mappings(pid):
                    shared[inode] = max(size, shared.get(inode, 0), box.shared.get(inode, 0))
                if files_of_box is None and box.directory is None:
                    files_of_box = _bytes_of_file_systems(pid, box.file_systems)
            if box.directory is not None:
                deleted |= _deleted_files(pid)
        if memory + sum(shared.values()) + (files_of_box or 0) > box.limits.memory_bytes:
            yield OUT_OF_MEMORY
        yield ""
    box.shared = shared
    if box.directory is not None:
        yield from _limits_of_files_passed(box, box.directory, deleted)


def _limits_of_files_passed(box: Box, directory: str, deleted: dict[tuple[int, int], int]) -> Iterator[str]:
    """The same for the files of its directory, and for those that were deleted and are still open."""
    sizes, total = deleted, sum(deleted.values())
    try:
        for number, (file, size) in enumerate(_files_below(directory), start=1):
            if file not in sizes:
                sizes[file] = size
                total += size
            if total > box.limits.session_bytes:
                break
            if number > box.limits.session_files:
                yield "too many files"
            if number % _FILES_AT_ONCE == 0:
                yield ""
    except OSError:  # a directory that cannot be read could hold any number of them
        yield "files that cannot be counted"
    yield "out of space for files" if total > box.limits.session_bytes else ""


@contextlib.contextmanager
def _reading_as(uid: int | None) -> Iterator[None]:
    """Read files as a user: without the capability to trace, root may not look at the processes of another one."""
    if uid is None:
        yield
        return
    libc = ctypes.CDLL(None)
    libc.setfsuid(uid)
    try:
        yield
    finally:
        libc.setfsuid(os.geteuid())


def _private_bytes(pid: int) -> int:
    """Memory of a process that is no file and not shared memory. Pages that it shares with others count in part."""
    try:
        try:
            text, names = Path(f"/proc/{pid}/smaps_rollup").read_bytes(), (b"Pss_Anon:", b"SwapPss:")
        except PermissionError:  # a program can make itself unreadable; its shared pages then count in full
            text, names = Path(f"/proc/{pid}/status").read_bytes(), (b"RssAnon:", b"VmSwap:")
    except OSError:
        return 0  # it has ended
    return sum(int(line.split()[1]) << 10 for line in text.splitlines() if line.startswith(names))


def _shared_mappings(pid: int) -> Iterator[tuple[bytes, int]]:
    """The anonymous shared memory that a process maps, and its sizes: it stays when it is no longer resident."""
    with contextlib.suppress(OSError):
        for line in Path(f"/proc/{pid}/maps").read_bytes().splitlines():
            if line.endswith(b"/dev/zero (deleted)"):
                addresses, _, offset, _, inode = line.split()[:5]
                first, last = (int(address, 16) for address in addresses.split(b"-"))
                yield inode, int(offset, 16) + last - first


def _bytes_of_file_systems(pid: int, paths: Iterable[str]) -> int | None:
    """Memory of the files in the file systems that a sandbox has of its own; None for a process that is not inside."""
    root = f"/proc/{pid}/root"
    try:
        os.stat(root + INSIDE)
        used = [os.statvfs(root + path) for path in paths]
    except OSError:
        return None
    return sum((of.f_blocks - of.f_bfree) * of.f_frsize + (of.f_files - of.f_ffree) * _BYTES_OF_INODE for of in used)


def _deleted_files(pid: int) -> dict[tuple[int, int], int]:
    """The files that a process has open and that have no name, and their sizes on the disk."""
    found = {}
    with contextlib.suppress(OSError), os.scandir(f"/proc/{pid}/fd") as entries:
        for entry in entries:
            with contextlib.suppress(OSError):
                file = os.stat(entry.path)
                if stat.S_ISREG(file.st_mode) and file.st_nlink == 0:
                    found[file.st_dev, file.st_ino] = file.st_blocks * 512
    return found


def _files_below(directory: str) -> Iterator[tuple[tuple[int, int], int]]:
    """Each file and directory below a directory, and its size on the disk. Raises OSError where one cannot be read."""
    pending = [directory]
    while pending:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError), os.scandir(pending.pop()) as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):
                    file = entry.stat(follow_symlinks=False)
                    if stat.S_ISDIR(file.st_mode):
                        pending.append(entry.path)
                    yield (file.st_dev, file.st_ino), file.st_blocks * 512
