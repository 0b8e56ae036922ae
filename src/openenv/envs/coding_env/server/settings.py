"""What the server of the coding environment allows, and the interpreters that it keeps ready."""

import threading
from dataclasses import dataclass, field
from functools import cache

from openenv.envs.coding_env.server.session import InterpreterPool
from openenv.hosting.sandbox.box_spec import Level
from openenv.hosting.sandbox.limits import SandboxLimits
from openenv.hosting.sandbox.sandbox import SandboxHost


@dataclass(frozen=True, kw_only=True)
class CodingSettings:
    """Limits of each program, and what it may use. Raises ValueError, naming the field, for a wrong value."""

    seconds: float = 10.0
    """Time of one program."""
    limits: SandboxLimits = field(default_factory=SandboxLimits)
    packages: tuple[str, ...] = ()
    """Installed distributions that programs may import, beside the standard library."""
    shell: bool = False
    """Whether programs may be commands of the shell."""
    level: Level | None = None
    """Of the sandbox; None: the strongest that works here."""
    num_ready: int = 2
    """Interpreters that wait for the next episodes."""

    def __post_init__(self) -> None:
        if not 0 < self.seconds <= 3600:
            raise ValueError(f"seconds={self.seconds!r}: expected a number above 0, at most 3600.")


_STARTING = threading.Lock()


def pool_of(settings: CodingSettings) -> InterpreterPool:
    """The interpreters that all sessions of this server share. Raises ContainerFault if no sandbox can be made."""
    with _STARTING:
        return _make_pool(settings)


@cache
def _make_pool(settings: CodingSettings) -> InterpreterPool:
    host = SandboxHost(settings.level or "strongest")
    return InterpreterPool(host, settings.limits, settings.packages, settings.num_ready)
