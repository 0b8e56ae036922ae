"""Where a server listens, how a client connects to it, and the server that a client owns."""

import contextlib
import socket
import ssl
import threading
from dataclasses import dataclass, field, replace

from websockets.uri import WebSocketURI

from openenv.core.client.owned_server import OwnedServer
from openenv.core.client.providers import ContainerProvider, RuntimeProvider
from openenv.core.errors import ServerUnreachable
from openenv.core.net.forks import ProcessBound
from openenv.core.net.websocket_protocol import websocket_uri
from openenv.core.wire.constants import UNIX


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def check_seconds(name: str, seconds: float) -> None:
    """Raise ValueError, with the setting's name, unless this is a time above 0 that the system can wait."""
    if not (_is_number(seconds) and 0 < seconds <= threading.TIMEOUT_MAX):
        raise ValueError(f"{name}={seconds!r:.50}: give a finite number of seconds above 0, such as 60")


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server listens, and the settings of connections to it."""

    base_url: str
    """Empty until the client has started a server of its own."""
    connect_timeout_s: float = 10.0
    """Limit of the connection and its handshake, and of attaching to a session."""
    message_timeout_s: float = 60.0
    """Limit of a response, and of the environment that the server makes for a new session."""
    max_size: int = 100 << 20
    headers: dict[str, str] = field(default_factory=dict)
    ping_interval_s: float | None = 20.0
    """Silence after which the client sends a ping; None: never."""
    ping_timeout_s: float | None = 20.0
    """Further silence after which the connection counts as broken; None: never."""
    reads_arrays: bool = False
    """Whether arrays may come as raw bytes."""
    query: str = ""
    """The query of a new session's URL: how many environments it has."""

    def __post_init__(self) -> None:
        for name in ("connect_timeout_s", "message_timeout_s"):
            check_seconds(name, getattr(self, name))
        for header, value in self.headers.items():
            if not (isinstance(value, str) and f"{header}{value}".isprintable()):
                # without the value, which may be a token
                raise ValueError(f"headers[{header!r}]: the name or the value holds a line break, or is no text")
        for name in ("ping_interval_s", "ping_timeout_s"):
            seconds = getattr(self, name)
            if seconds is not None and not (_is_number(seconds) and seconds > 0):
                raise ValueError(f"websocket_{name}={seconds!r:.50}: give seconds above 0, or None to do without")

    @property
    def unix_path(self) -> str | None:
        """The path of the server's Unix socket; None where it listens on a port."""
        return self.base_url.removeprefix(UNIX) if self.base_url.startswith(UNIX) else None

    def uri(self, session_id: str | None) -> WebSocketURI:
        """The URI of `/ws`, for a new session or for the one of that id."""
        return websocket_uri(self.base_url, query=f"session_id={session_id}" if session_id else self.query)

    def open_socket(self) -> socket.socket:
        """A connected blocking socket. Raises ServerUnreachable."""
        uri = self.uri(None)
        try:
            if self.unix_path is not None:
                return _unix_socket(self.unix_path, self.connect_timeout_s)
            connection = socket.create_connection((uri.host, uri.port), self.connect_timeout_s)
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if uri.secure:
                connection = ssl.create_default_context().wrap_socket(connection, server_hostname=uri.host)
        except OSError as error:
            raise self.unreachable(error) from error
        return connection

    def unreachable(self, error: Exception) -> ServerUnreachable:
        """The error for a connection that could not be made."""
        uri = self.uri(None)
        where = self.base_url if self.unix_path is not None else f"{uri.host}:{uri.port}"
        if isinstance(error, TimeoutError):
            return ServerUnreachable(
                f"no WebSocket of {where} opened in {self.connect_timeout_s:g} s: is the server running? "
                "If it is slow, raise connect_timeout_s"
            )
        return ServerUnreachable(f"no environment answers at {where} ({error}): is the server running?")


def _unix_socket(path: str, timeout_s: float) -> socket.socket:
    with contextlib.ExitStack() as on_error:
        connection = on_error.enter_context(socket.socket(socket.AF_UNIX))
        connection.settimeout(timeout_s)
        connection.connect(path)
        on_error.pop_all()
    return connection


class Endpoint(ProcessBound):
    """The address of a client's server, and the server itself where the client owns one."""

    def __init__(self, address: Address, provider: ContainerProvider | RuntimeProvider | None = None) -> None:
        """provider: runs the server; it is started by `start` where the address has no base_url."""
        super().__init__()
        self.address = address
        self._starts_server = not address.base_url
        self._server = None if provider is None else OwnedServer(provider, is_running=not self._starts_server)
        self._lock = threading.Lock()

    def start(self) -> bool:
        """Start the client's own server unless it runs. Returns whether that was necessary."""
        with self._lock:
            if self.address.base_url:
                return False
            assert self._server is not None
            self.address = replace(self.address, base_url=self._server.start())
            return True

    def stop(self) -> None:
        """Stop the client's own server, if there is one, after a start that another thread is at."""
        if self._server is not None:
            with self._lock:
                if self._starts_server:
                    self.address = replace(self.address, base_url="")
                self._server.stop()

    def leave_to_parent(self) -> None:
        """Called in a forked child: a server that runs is the parent's, which stops it."""
        self._lock = threading.Lock()
        if self.address.base_url:
            self._starts_server, self._server = False, None

    @property
    def owns_server(self) -> bool:
        """Whether `stop` has something to stop."""
        return self._server is not None
