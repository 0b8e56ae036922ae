"""What the server of the coding environment allows, and the interpreters that it keeps ready."""

import threading
from dataclasses import dataclass
from functools import cache

from openenv.envs.coding_env.server.session import InterpreterPool
from openenv.hosting.sandbox.box_spec import Level
from openenv.hosting.sandbox.limits import SandboxLimits
from openenv.hosting.sandbox.sandbox import SandboxHost
from openenv.hosting.serving.settings import option


@dataclass(frozen=True, kw_only=True)
class CodingSettings:
    """Limits of each program, and what it may use. Raises ValueError, naming the field, for a wrong value."""

    seconds: float = option(10.0, "Stop a program after this many seconds")
    memory_mb: int = option(512, "Memory of a sandbox in MiB")
    processes: int = option(64, "Processes and threads of a sandbox")
    packages: tuple[str, ...] = option((), "Installed packages that programs may import, with commas")
    shell: bool = option(False, "Allow commands of the shell")
    level: Level | None = option(None, "Level of the sandbox", unset="the strongest that works")
    num_ready: int = 2
    """Interpreters that wait for the next episodes."""

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= 3600:
            raise ValueError(f"seconds={self.seconds!r}: expected a number above 0, at most 3600.")
        try:
            _ = self.limits
        except ValueError as error:
            raise ValueError(f"memory_mb={self.memory_mb!r}, processes={self.processes!r}: {error}") from None

    @property
    def limits(self) -> SandboxLimits:
        """The limits of a sandbox."""
        return SandboxLimits(memory_bytes=self.memory_mb << 20, processes=self.processes)


_STARTING = threading.Lock()


def pool_of(settings: CodingSettings) -> InterpreterPool:
    """The interpreters that all sessions of this server share. Raises ContainerFault if no sandbox can be made."""
    with _STARTING:
        return _make_pool(settings)


@cache
def _make_pool(settings: CodingSettings) -> InterpreterPool:
    host = SandboxHost(settings.level or "strongest")
    return InterpreterPool(host, settings.limits, settings.packages, settings.num_ready)
