"""The limits of one server."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from openenv.core.env_server.types import ServerMode

Execution = Literal["inline", "thread", "process"]


@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Limits of one server. Times are seconds."""

    max_sessions: int = 4096
    """Sessions at one time; fewer when the environment itself allows fewer."""
    max_waiting: int = 0
    """Callers that may wait for a session when the server is full; the next is refused at once."""
    max_wait_s: float = 30.0
    """How long a caller waits for a session before it is refused."""
    idle_timeout_s: float = 3600.0
    """A session without a request for this long is ended."""
    grace_s: float = 60.0
    """How long a session waits for its client to come back after the connection broke."""
    step_timeout_s: float = 120.0
    """The most that a step may take; a request may ask for less."""
    reset_timeout_s: float = 120.0
    """The most that a reset may take."""
    max_snapshots: int = 1024
    """Snapshots kept for `restore`; the oldest make way."""
    max_snapshot_bytes: int = 256 << 20
    """All snapshots together."""
    max_message_bytes: int = 100 << 20
    """The largest message taken from a client."""
    execution: Execution | None = None
    """Where environments run; None: where their author says."""
    token: str | None = None
    """Bearer token that every request must carry; None: no authentication."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may use the server, besides its own; `*` for all."""
    record_dir: Path | None = None
    """Folder to which every session is recorded as JSON lines; None: nothing is recorded."""
    trace: bool = False
    """Whether each verb makes an OpenTelemetry span, which needs the extra `otel`."""
    mode: ServerMode = ServerMode.SIMULATION
    """Production serves no reset, step and state over plain HTTP."""

    def __post_init__(self) -> None:
        for name in ("max_sessions", "max_snapshots", "max_snapshot_bytes", "max_message_bytes"):
            if getattr(self, name) < 1:
                raise ValueError(f"{name}={getattr(self, name)}: give 1 or more")
        if self.max_waiting < 0:
            raise ValueError(f"max_waiting={self.max_waiting}: give 0 (nobody waits) or more")
        for name in ("idle_timeout_s", "step_timeout_s", "reset_timeout_s", "max_wait_s"):
            if getattr(self, name) <= 0:
                raise ValueError(f"{name}={getattr(self, name)}: give a time above 0 seconds")
        if self.grace_s < 0:
            raise ValueError(f"grace_s={self.grace_s}: give 0 (a lost connection ends its session) or more seconds")
        if self.execution not in (None, "inline", "thread", "process"):
            raise ValueError(f"execution={self.execution!r}: inline, thread, process, or None for the author's choice")
