"""Memory of the machine: how much this process may use, and how it returns what it has freed."""

import ctypes
import gc
import os
import sys
from pathlib import Path

import torch

_CGROUPS = Path("/sys/fs/cgroup")


def resident_bytes() -> int:
    """Bytes of memory that this process uses now; 0 where the system does not show it."""
    try:
        return int(Path("/proc/self/statm").read_text(encoding="utf-8").split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError):
        return 0


def usable_bytes(device: torch.device) -> int | None:
    """Bytes that this process may use in all, with what it uses already: of the device, or of the machine and its
    control groups. None where the system does not show it."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0] + torch.cuda.memory_reserved(device)
    rooms = [room for room in (_machine_room(), *_group_rooms(_CGROUPS, Path("/proc/self/cgroup"))) if room is not None]
    return min(rooms) + resident_bytes() if rooms else None


def release_freed() -> None:
    """Return freed memory to the system, which the C library keeps otherwise: gigabytes after a few passes."""
    gc.collect()
    if sys.platform != "linux":
        return
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)  # of glibc alone
    if trim is not None:
        trim(0)


def _machine_room() -> int | None:
    try:
        lines = dict(line.split(":", 1) for line in Path("/proc/meminfo").read_text(encoding="utf-8").splitlines())
        return int(lines["MemAvailable"].split()[0]) * 1024
    except (OSError, KeyError, ValueError):
        return None


def _group_rooms(root: Path, own: Path) -> list[int | None]:
    """The bytes that are free in each control group of the process (versions 1 and 2). root: where groups are mounted.
    own: the file with the groups of the process."""
    try:
        entries = [line.split(":", 2) for line in own.read_text(encoding="utf-8").splitlines()]
    except OSError:
        return []
    rooms: list[int | None] = []
    for _, controllers, path in entries:
        if controllers == "memory":
            names, base = ("memory.limit_in_bytes", "memory.usage_in_bytes"), root / "memory"
        elif not controllers:
            names, base = ("memory.max", "memory.current"), root
        else:
            continue
        group = base / path.lstrip("/")
        for folder in (group, *group.parents):
            rooms.append(_room(folder / names[0], folder / names[1], folder / "memory.stat"))
            if folder == base:
                break
    return rooms


def _room(limit: Path, used: Path, stat: Path) -> int | None:
    """Bytes below the limit of a group. Its file cache counts as free. None without a limit."""
    try:
        text = limit.read_text(encoding="utf-8").strip()
        if not text.isdigit():
            return None  # max
        cached = [
            line.split()[1]
            for line in stat.read_text(encoding="utf-8").splitlines()
            if line.split()[0] == "inactive_file"
        ]
        return max(0, int(text) - int(used.read_text(encoding="utf-8")) + int(cached[0] if cached else 0))
    except (OSError, ValueError, IndexError):
        return None
