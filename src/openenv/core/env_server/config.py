"""The limits of one server, and their former names."""

import functools
import os
import re
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal, TypeVar

from openenv.core.env_server.types import ServerMode

Execution = Literal["inline", "thread", "process"]
_T = TypeVar("_T")

_REPLICA = re.compile(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?")

RENAMED_FIELDS = {"max_waiting": "max_queue", "max_wait_s": "queue_timeout_s", "grace_s": "reconnect_grace_s"}
"""Former name of a field: its name now. The former name is accepted for one release, with a warning."""


def default_mode() -> ServerMode:
    """The mode that the environment variable OPENENV_MODE names, or simulation. Raises ValueError for another word."""
    return ServerMode(os.environ.get("OPENENV_MODE", ServerMode.SIMULATION).lower())


def default_hosts() -> tuple[str, ...]:
    """The name that the Hub gives a Space in the environment variable SPACE_HOST, or none."""
    host = os.environ.get("SPACE_HOST")
    return (host,) if host else ()


def default_replica() -> str | None:
    """The name of this server among its replicas in the environment variable OPENENV_REPLICA, or None."""
    return os.environ.get("OPENENV_REPLICA") or None


def _accept_former_names(cls: type[_T]) -> type[_T]:
    """Let the constructor take RENAMED_FIELDS under their former names, too, with a DeprecationWarning."""
    construct: Callable[..., None] = cls.__init__

    @functools.wraps(construct)
    def __init__(self: _T, **fields: Any) -> None:
        for former in RENAMED_FIELDS.keys() & fields.keys():
            name = RENAMED_FIELDS[former]
            warnings.warn(f"ServerConfig({former}=...) is called {name} now", DeprecationWarning, stacklevel=2)
            if name in fields:
                raise TypeError(f"{former} is the former name of {name}: give {name} alone")
            fields[name] = fields.pop(former)
        construct(self, **fields)

    cls.__init__ = __init__  # type: ignore[assignment]  # the signature that tools see stays the dataclass's
    return cls


@_accept_former_names
@dataclass(frozen=True, kw_only=True)
class ServerConfig:
    """Limits of one server. Times are seconds."""

    max_sessions: int = 4096
    """Sessions at one time; fewer when the environment itself allows fewer."""
    max_envs_per_session: int = 4096
    """Environments of one vector session."""
    max_queue: int = 0
    """Callers that may wait for a session when the server is full; the next one is refused at once."""
    queue_timeout_s: float = 30.0
    """How long a caller waits for a session before it is refused."""
    idle_timeout_s: float = 3600.0
    """A session without a request for this long is closed."""
    http_idle_timeout_s: float = 600.0
    """The same for a session opened over HTTP while no WebSocket plays it."""
    reconnect_grace_s: float = 60.0
    """How long a session waits for its client to reconnect after the connection broke."""
    step_timeout_s: float = 120.0
    """Time limit of a step; a request may set a lower one."""
    reset_timeout_s: float = 120.0
    """Time limit of a reset; a request may set a lower one."""
    head_timeout_s: float = 10.0
    """From the first byte of an HTTP request, or from the connection, to the end of the request's head."""
    body_timeout_s: float = 30.0
    """The longest wait for further bytes of a request's body."""
    drain_timeout_s: float = 0.0
    """How long sessions may go on after SIGTERM, while new ones are refused. 0: no longer than their running steps."""
    replica: str | None = field(default_factory=default_replica)
    """Name of this server among its replicas, such as `echo-env-1`. Its session ids begin with it, so that a gateway
    knows where a session plays. The default is OPENENV_REPLICA; None: ids have no such name."""
    max_snapshots: int = 1024
    """Snapshots kept for `restore`; beyond that the oldest are evicted."""
    max_snapshot_bytes: int = 256 << 20
    """Size of all snapshots together."""
    max_message_bytes: int = 100 << 20
    """The largest message accepted from a client."""
    execution: Execution | None = None
    """Where environments run; None: where their author declares."""
    token: str | None = field(default=None, repr=False)
    """Bearer token that every request must carry; None: no authentication."""
    allowed_origins: tuple[str, ...] = ()
    """Origins of web pages that may use the server, besides its own; `*` for all."""
    trusted_proxies: tuple[str, ...] = ()
    """Addresses and networks of proxies whose X-Forwarded-For and X-Forwarded-Proto headers are believed. With `*` each
    caller is taken for a proxy, and the last address of the header for its caller: for a port that only one reaches."""
    allowed_hosts: tuple[str, ...] = field(default_factory=default_hosts)
    """Names of this server, such as a proxy's, in requests over loopback and of its own pages; `*` for all. With a
    token all are allowed. The default is the name of a Space of the Hub, SPACE_HOST, where there is one."""
    record_dir: Path | None = None
    """Folder to which every session is recorded as JSON lines; None: nothing is recorded."""
    recorded_options: tuple[str, ...] = ()
    """Options of the environment's server, such as `--game chess`, which a recording holds for its replay."""
    allow_watching: bool = False
    """Whether the page at `/web/watch` shows the sessions of this server, read only, to those that may use it."""
    trace: bool = False
    """Whether each verb makes an OpenTelemetry span, which needs the extra `otel`."""
    busy_poll: bool = True
    """Whether the event loop polls for a moment after each message, which costs processor time and saves latency."""
    mode: ServerMode = field(default_factory=default_mode)
    """Production serves no reset, step and state over plain HTTP. The default is OPENENV_MODE, or simulation."""

    def __post_init__(self) -> None:
        for name in (
            "max_sessions",
            "max_envs_per_session",
            "max_snapshots",
            "max_snapshot_bytes",
            "max_message_bytes",
        ):
            if not getattr(self, name) >= 1:
                raise ValueError(f"{name}={getattr(self, name)}: give 1 or more")
        if not self.max_queue >= 0:
            raise ValueError(f"max_queue={self.max_queue}: give 0 (no queue) or more")
        for name in (
            "idle_timeout_s", "http_idle_timeout_s", "step_timeout_s", "reset_timeout_s", "queue_timeout_s",
            "head_timeout_s", "body_timeout_s",
        ):  # fmt: skip
            if not getattr(self, name) > 0:
                raise ValueError(f"{name}={getattr(self, name)}: give a time above 0 seconds")
        if self.token is not None and not self.token.strip():
            raise ValueError(f"token={self.token!r}: an empty token guards nothing: give a text, or None for no token")
        if not self.reconnect_grace_s >= 0:
            raise ValueError(
                f"reconnect_grace_s={self.reconnect_grace_s}: give 0 (a broken connection ends its session) or more "
                "seconds"
            )
        if not self.drain_timeout_s >= 0:
            raise ValueError(
                f"drain_timeout_s={self.drain_timeout_s}: give 0 (running steps alone finish) or more seconds"
            )
        if self.replica is not None and not _REPLICA.fullmatch(self.replica):
            raise ValueError(
                f"replica={self.replica!r}: use lower-case letters, digits and hyphens, at most 63, as in echo-env-1"
            )
        if self.execution not in (None, "inline", "thread", "process"):
            raise ValueError(
                f"execution={self.execution!r}: give inline, thread, process, or None for the author's choice"
            )
