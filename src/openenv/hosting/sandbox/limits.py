"""Limits of the resources that the programs of one sandbox may use together."""

from collections.abc import Mapping
from dataclasses import dataclass

_MIB = 1 << 20
_LEAST = {
    "memory_bytes": 16 * _MIB,
    "processes": 2,
    "cpu_seconds": 1,
    "open_files": 16,
    "file_bytes": 4096,
    "session_bytes": 4096,
    "session_files": 16,
}


@dataclass(frozen=True, kw_only=True)
class SandboxLimits:
    """What a sandbox may use. Raises ValueError, naming the field, for a limit in which nothing can run."""

    memory_bytes: int = 512 * _MIB
    """Memory of all its processes and files. Without a control group: also address space of each process."""
    processes: int = 64
    """Processes and threads at one time."""
    cpus: float = 1.0
    """Processors: 0.5 is half the time of one. Needs a control group."""
    cpu_seconds: int = 3600
    """Processor time of each process."""
    open_files: int = 128
    """Open file descriptors of each process."""
    file_bytes: int = 32 * _MIB
    """Size of one file."""
    session_bytes: int = 64 * _MIB
    """Size of `/session`, its working directory, and of `/tmp`, each. On the level `landlock`: of all its files."""
    session_files: int = 10_000
    """Files and folders in its working directory, on the level `landlock`."""

    def __post_init__(self) -> None:
        check_limits(self, _LEAST)


def check_limits(limits: object, least: Mapping[str, int]) -> None:
    """Raise ValueError, naming the field, for a limit below its least value, or for processors that are not above 0."""
    name_of_class = type(limits).__name__
    for name, low in least.items():
        value = getattr(limits, name)
        if not isinstance(value, int) or isinstance(value, bool) or value < low:
            raise ValueError(f"{name_of_class}.{name}={value!r}: expected a whole number of at least {low}.")
    cpus = getattr(limits, "cpus", None)
    if cpus is not None and not cpus > 0:
        raise ValueError(f"{name_of_class}.cpus={cpus!r}: expected a number above 0.")
