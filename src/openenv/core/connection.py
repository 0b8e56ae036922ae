"""Where a server is, and one WebSocket connection to it on a blocking socket: whole messages out and in."""

import contextlib
import math
import socket
import ssl
import struct
import time
from collections import deque
from dataclasses import dataclass, field

from websockets.uri import WebSocketURI

from openenv.core.errors import AnswerTimeout, ServerUnreachable, SessionLost, Unauthorized
from openenv.core.local_socket import connected_beside
from openenv.core.protocol import UNIX
from openenv.core.watching import WATCH_S, SocketWatch
from openenv.core.websocket_protocol import WebSocketProtocol, websocket_uri

_READ_BYTES = 1 << 16


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server is, and how to speak to it."""

    base_url: str
    connect_timeout_s: float = 10.0
    """How long the TCP connection and the handshake may take."""
    welcome_timeout_s: float = 60.0
    """How long the server may then take to make the environment of a new session."""
    max_size: int = 100 << 20
    headers: dict[str, str] = field(default_factory=dict)
    ping_interval_s: float | None = 20.0
    """The longest silence before the server is asked whether it is there; None: it is never asked."""
    reads_arrays: bool = False
    """Whether arrays may come as raw bytes."""
    query: str = ""
    """What a new session's URL says beside: how many environments it has."""
    ping_timeout_s: float | None = 20.0
    """The longest silence after that, before the connection counts as broken; None: it never does."""

    def __post_init__(self) -> None:
        for name in ("ping_interval_s", "ping_timeout_s"):
            seconds = getattr(self, name)
            if seconds is not None and not seconds > 0:
                raise ValueError(f"websocket_{name}={seconds}: give seconds above 0, or None to do without")

    @property
    def unix_path(self) -> str | None:
        """The server's Unix socket, where it has one in place of a port."""
        return self.base_url.removeprefix(UNIX) if self.base_url.startswith(UNIX) else None

    def welcome_s(self, session_id: str | None) -> float:
        """How long the server's first frame is waited for: to attach to a session nothing has to be made."""
        return self.welcome_timeout_s if session_id is None else self.connect_timeout_s

    def uri(self, session_id: str | None) -> WebSocketURI:
        """The address of `/ws`, for a new session or for the one of that id."""
        return websocket_uri(self.base_url, query=f"session_id={session_id}" if session_id else self.query)


class BlockingConnection:
    """A connection on a blocking socket: no event loop, no thread for each connection. One thread at a time."""

    def __init__(self, address: Address, session_id: str | None = None) -> None:
        """Connect. Raises ServerUnreachable when nobody answers in time."""
        uri = address.uri(session_id)
        self._inbox: deque[bytes] = deque()
        self._ping_timeout_s = math.inf if address.ping_timeout_s is None else address.ping_timeout_s
        self._ping_interval_s = self._patience_s = math.inf  # pings begin after the handshake
        self._is_pinged = False
        self._socket = _open_socket(address, uri)
        self._waiting = _Waiting(self._socket, max(60.0, address.connect_timeout_s))
        self._watch = SocketWatch(self._socket)
        deadline = time.monotonic() + address.connect_timeout_s
        try:
            self._protocol = WebSocketProtocol(
                uri, address.max_size, address.headers, reads_arrays=address.reads_arrays
            )
            self._flush()
            while self._protocol.is_connecting:
                self._read(deadline)
        except (Unauthorized, ValueError):  # the latter for a header
            self._socket.close()
            raise
        except OSError as error:
            self._socket.close()
            raise ServerUnreachable(
                f"{uri.host}:{uri.port} did not complete the WebSocket handshake: {error}"
            ) from error
        if address.ping_interval_s is not None:
            self._ping_interval_s = self._patience_s = address.ping_interval_s

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._protocol.is_open

    @property
    def subprotocol(self) -> str | None:
        """What the server chose."""
        return self._protocol.subprotocol

    @property
    def has_message(self) -> bool:
        """Whether something has come that the socket no longer shows."""
        is_decrypted = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0
        return bool(self._inbox) or is_decrypted or not self.is_open

    def fileno(self) -> int:
        """The socket's."""
        return self._socket.fileno()

    def send(self, message: bytes) -> None:
        """Send a message. Raises SessionLost when the connection is broken."""
        try:
            self._write(self._protocol.frame(message))
        except OSError as error:
            raise self._lost(error) from error

    def receive(self, deadline: float) -> bytes:
        """The next message. Raises AnswerTimeout at `deadline` (monotonic seconds), SessionLost when there is none.

        A server that is silent for the ping interval is asked whether it is there, and lost when it does not answer.
        """
        while not self._inbox:
            if not self.is_open:
                raise SessionLost(self._protocol.reason())
            try:
                self._read(deadline)
            except AnswerTimeout:
                raise
            except OSError as error:
                raise self._lost(error) from error
        return self._inbox.popleft()

    def say_last(self, message: bytes, deadline: float) -> None:
        """Send a message, if that is possible, and wait until the server has closed the connection, or `deadline`."""
        with contextlib.suppress(OSError):  # nobody is there to hear it, or to answer in time
            self.send(message)
            while self.is_open:
                self._read(deadline)

    def close(self) -> None:
        """Say goodbye and close the socket."""
        try:
            self._protocol.close()
            self._flush()
        except OSError:
            pass  # the other side is gone already: there is nobody to say goodbye to
        finally:
            self._protocol.connection_lost()
            self._socket.close()

    def answer_pings(self) -> None:
        """Read what has come meanwhile; pings are answered on the way."""
        with contextlib.suppress(OSError):  # nothing to read, or closed: the next request says so
            self._read(time.monotonic())

    def _lost(self, error: OSError) -> SessionLost:
        self._protocol.connection_lost()
        return error if isinstance(error, SessionLost) else SessionLost(f"{error}: {self._protocol.reason()}")

    def _flush(self) -> None:
        data = self._protocol.outgoing()
        if data:
            self._write(data)

    def _write(self, data: bytes) -> None:
        try:
            self._waiting.before_write(len(data))
            self._socket.sendall(data)
        except BlockingIOError:  # the kernel's word for its own time limit
            raise TimeoutError("the other side takes nothing more") from None

    def _read(self, deadline: float) -> None:
        """Read once from the socket, at the latest until `deadline` (monotonic seconds), or ask for a sign of life."""
        wait_s = self._waiting.before_read(min(deadline - time.monotonic(), self._patience_s))
        try:
            data = (wait_s >= WATCH_S and self._watch.seen(_READ_BYTES)) or self._socket.recv(_READ_BYTES)
        except (TimeoutError, BlockingIOError):
            self._heard_nothing(wait_s, deadline)
            return
        if self._is_pinged or self._patience_s != self._ping_interval_s:
            self._patience_s, self._is_pinged = self._ping_interval_s, False
        text = self._protocol.whole_text(data)
        if text is not None:
            self._inbox.append(text)
            return
        self._inbox.extend(self._protocol.receive(data))
        try:
            self._flush()
        except OSError:  # the other side is gone, but what it said before has been read
            data = b""
        if not data:
            self._protocol.connection_lost()

    def _heard_nothing(self, waited_s: float, deadline: float) -> None:
        self._patience_s -= waited_s
        if self._patience_s <= 0:
            self._ping()
        elif time.monotonic() >= deadline:
            raise AnswerTimeout("no answer in time; the session lives and its late answer will be dropped")

    def _ping(self) -> None:
        """The server is silent. Raises SessionLost when it was asked before."""
        if self._is_pinged:
            self._protocol.connection_lost(f"the server answered no ping in {self._ping_timeout_s:g} s")
            self._socket.close()  # without a goodbye, which nobody would hear
            raise SessionLost(self._protocol.reason())
        self._is_pinged, self._patience_s = True, self._ping_timeout_s
        self._protocol.ping()
        self._flush()


class _Waiting:
    """How long a socket waits. A plain one is left blocking, and the kernel keeps the time: one system call for a read,
    where Python's own time limit takes three. The limit is set anew only when it changes by much."""

    def __init__(self, connection: socket.socket, write_timeout_s: float) -> None:
        self._socket = connection
        self._is_plain = not isinstance(connection, ssl.SSLSocket)
        self._write_timeout_s = write_timeout_s
        self._limit_s = 0.0
        if self._is_plain:
            connection.settimeout(None)
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(write_timeout_s))

    def before_read(self, wait_s: float) -> float:
        """Set the limit of a read, a second at most. Returns it."""
        limit_s = 1.0 if wait_s >= 1.0 else max(wait_s, 1e-4)
        if limit_s != self._limit_s:
            self._limit_s = limit_s
            if self._is_plain:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(limit_s))
            else:
                self._socket.settimeout(limit_s)
        return limit_s

    def before_write(self, size: int) -> None:
        """What is large may have to wait for the other side, for longer than a read does."""
        if not self._is_plain and size > _READ_BYTES:
            self._limit_s = 0.0
            self._socket.settimeout(self._write_timeout_s)


def _timeval(seconds: float) -> bytes:
    whole = int(seconds)
    return struct.pack("@ll", whole, max(1, int((seconds - whole) * 1e6)))


def _open_socket(address: Address, uri: WebSocketURI) -> socket.socket:
    if address.unix_path is not None:
        return _open_unix_socket(address, address.unix_path)
    beside = None if uri.secure else connected_beside(uri.host, uri.port)
    if beside is not None:
        return beside
    try:
        connection = socket.create_connection((uri.host, uri.port), address.connect_timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if uri.secure:
            connection = ssl.create_default_context().wrap_socket(connection, server_hostname=uri.host)
    except OSError as error:
        raise unreachable(address, error) from error
    return connection


def _open_unix_socket(address: Address, path: str) -> socket.socket:
    connection = socket.socket(socket.AF_UNIX)
    connection.settimeout(address.connect_timeout_s)
    try:
        connection.connect(path)
    except OSError as error:
        connection.close()
        raise unreachable(address, error) from error
    return connection


def unreachable(address: Address, error: Exception) -> ServerUnreachable:
    """The error for an address where nobody answers."""
    uri = address.uri(None)
    where = address.base_url if address.unix_path is not None else f"{uri.host}:{uri.port}"
    return ServerUnreachable(f"no environment answers at {where} ({error}): is the server running?")
