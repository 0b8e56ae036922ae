"""A client's session on a blocking socket: no event loop, and no thread for each connection."""

import contextlib
import math
import socket
import ssl
import struct
import threading
import time
from collections.abc import Callable
from typing import Any, TypeVar

from openenv.core.client.address import Address, Endpoint
from openenv.core.client.keepalive import PingAction, PingedClient, PingSchedule, PongThread
from openenv.core.client.lifecycle import BlockingLifecycle
from openenv.core.client.session import CLOSE_TIMEOUT_S, FIRST_PAUSE_S, FORKED, TIMED_OUT, ClientSession, Pending
from openenv.core.errors import (
    AnswerTimeout,
    OpenEnvError,
    RequestRefused,
    ServerUnreachable,
    SessionGone,
    SessionLost,
    Unauthorized,
)
from openenv.core.net.busy_poll import SPIN_S, SocketSpinner
from openenv.core.net.frames import BINARY, TEXT, client_frame
from openenv.core.net.websocket_protocol import WebSocketProtocol
from openenv.core.wire.arrays import BinaryFrame
from openenv.core.wire.client_codec import CLOSE, Request

ResultT = TypeVar("ResultT")

_READ_BYTES = 1 << 16
_MOST_READ_BYTES = 1 << 20
"""Of a message whose length is known."""
_MAX_READ_S = 1.0
"""The longest blocking read: deadlines and pings are checked in between."""
_MIN_READ_S = 1e-4
_PONG_THREAD = PongThread()


class BlockingConnection:
    """One WebSocket connection of a session. One thread at a time."""

    def __init__(self, address: Address, session: ClientSession) -> None:
        """Connect. Raises ServerUnreachable, Unauthorized, or CapacityReached of a server that stops."""
        self._session = session
        self._on_message = session.receive
        self._opened = _wait_until(time.monotonic() + address.connect_timeout_s)
        self._protocol = WebSocketProtocol(
            address.uri(session.session_id),
            address.max_size,
            address.headers,
            reads_arrays=address.reads_arrays,
            on_open=self._on_open,
            on_message=session.receive,
        )
        self._pings = PingSchedule(None, None, 0.0)  # none before the handshake is done
        self._max_read_s = _MAX_READ_S
        """The longest read before `_on_silence` is called."""
        self._read_limit_s = 0.0
        self._write_limit_s = max(60.0, address.connect_timeout_s)
        self._socket = address.open_socket()
        self._is_plain = not isinstance(self._socket, ssl.SSLSocket)
        if self._is_plain:  # the kernel keeps the limits: one system call a read, where Python's own take three
            self._socket.settimeout(None)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(self._write_limit_s))
        self._spinner = SocketSpinner(self._socket)
        try:
            self._flush()
            self.wait_for(self._opened)
        except (RequestRefused, ValueError):
            self._socket.close()
            raise
        except TimeoutError as error:
            self._socket.close()
            raise address.unreachable(error) from error
        except OSError as error:
            self._socket.close()
            raise ServerUnreachable(f"{address.base_url} did not complete the WebSocket handshake: {error}") from error
        self._pings = PingSchedule(address.ping_interval_s, address.ping_timeout_s, time.monotonic())
        self._max_read_s = min(_MAX_READ_S, address.ping_interval_s or math.inf)

    def _on_open(self, subprotocol: str | None) -> None:
        self._session.connected(subprotocol)
        self._opened.data = {}

    @property
    def has_message(self) -> bool:
        """Whether `wait_for` may return although the socket shows nothing to read."""
        is_decrypted = isinstance(self._socket, ssl.SSLSocket) and self._socket.pending() > 0
        return is_decrypted or not self._protocol.is_open

    def fileno(self) -> int:
        """The socket's file descriptor."""
        return self._socket.fileno()

    def send(self, message: bytes, deadline: float = math.inf) -> None:
        """Send a message. Raises SessionLost when the connection is broken, or has not taken all of a large message at
        the deadline (monotonic seconds)."""
        if not self._protocol.is_open:
            raise SessionLost(self._protocol.reason())
        data = client_frame(BINARY if type(message) is BinaryFrame else TEXT, message)
        try:
            if len(data) > _READ_BYTES:
                self._send_large(data, deadline)
            else:
                self._socket.sendall(data)
        except OSError as error:
            raise self._lost(error) from error

    def wait_for(self, pending: Pending) -> None:
        """Pass messages to the session until the request is done.

        Raises AnswerTimeout at its deadline, also while other bytes arrive, and SessionLost when the connection is
        broken. A server that stays silent gets a ping, and the connection is broken when it does not answer.
        """
        protocol, pings, num_bytes = self._protocol, self._pings, _READ_BYTES
        while pending.data is None and pending.error is None:
            if not (protocol.is_open or protocol.is_connecting):
                raise SessionLost(protocol.reason())
            wait_s = min(max(pending.deadline - time.monotonic(), _MIN_READ_S), self._max_read_s)
            if wait_s != self._read_limit_s:
                self._limit_reads(wait_s)
            try:
                data = (wait_s >= SPIN_S and self._spinner.recv(num_bytes)) or self._socket.recv(num_bytes)
            except (TimeoutError, BlockingIOError):
                self._on_silence(pending.deadline)
                continue
            except OSError as error:
                raise self._lost(error) from error
            received_at = pings.last_received = time.monotonic()
            text = protocol.whole_text(data)
            if text is not None:
                self._on_message(text)
            else:
                self._receive(data)
                num_bytes = min(max(_READ_BYTES, protocol.num_missing), _MOST_READ_BYTES)
            if received_at >= pending.deadline and pending.data is None and pending.error is None:
                raise AnswerTimeout(TIMED_OUT)

    def _receive(self, data: bytes) -> None:
        self._protocol.receive(data)
        try:
            self._flush()
        except OSError:  # the other side has closed, but its messages have been read
            data = b""
        if not data:
            self._protocol.connection_lost()

    def _on_silence(self, deadline: float) -> None:
        now = time.monotonic()
        action = self._pings.check(now)
        if action is PingAction.GIVE_UP:
            self._protocol.connection_lost(self._pings.reason())
            self._socket.close()
            return
        if action is PingAction.SEND_PING:
            self._protocol.ping()
            with contextlib.suppress(OSError):  # the next read fails likewise
                self._flush()
        self._max_read_s = min(_MAX_READ_S, max(self._pings.due - now, _MIN_READ_S))
        if now >= deadline:
            raise AnswerTimeout(TIMED_OUT)

    def end_session(self) -> None:
        """Send CLOSE and wait until the server has closed the connection, for a limited time."""
        with contextlib.suppress(OSError):
            self.send(CLOSE)
            self.wait_for(_wait_until(time.monotonic() + CLOSE_TIMEOUT_S))

    def close(self) -> None:
        """Send a close frame and close the socket."""
        with contextlib.suppress(OSError):
            self._protocol.close()
            self._flush()
        self._protocol.connection_lost()
        self._socket.close()

    def drop(self) -> None:
        """Close this process's socket, and send nothing: a parent still uses the connection."""
        self._protocol.connection_lost(FORKED)
        self._socket.close()

    def answer_pings(self) -> None:
        """Read what has arrived; pings are answered on the way."""
        with contextlib.suppress(OSError):
            self.wait_for(_wait_until(time.monotonic()))

    def _lost(self, error: OSError) -> SessionLost:
        self._protocol.connection_lost()
        return SessionLost(f"{error}: {self._protocol.reason()}")

    def _flush(self) -> None:
        data = self._protocol.outgoing()
        if data:
            self._socket.sendall(data)

    def _limit_reads(self, seconds: float) -> None:
        self._read_limit_s = seconds
        if self._is_plain:
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, _timeval(seconds))
        else:
            self._socket.settimeout(seconds)

    def _send_large(self, data: bytes, deadline: float) -> None:
        """A large message may have to wait longer for the other side than a read does, but not beyond the deadline."""
        unsent = memoryview(data)
        while unsent:
            wait_s = min(deadline - time.monotonic(), self._write_limit_s)
            if wait_s <= 0:
                raise TimeoutError("the server takes the request too slowly")
            if self._is_plain:
                self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, _timeval(wait_s))
            else:
                self._read_limit_s = 0.0
                self._socket.settimeout(wait_s)
            unsent = unsent[self._socket.send(unsent) :]


def _wait_until(deadline: float) -> Pending:
    return Pending("", "", b"", deadline)


def _timeval(seconds: float) -> bytes:
    whole = int(seconds)
    return struct.pack("@ll", whole, max(1, int((seconds - whole) * 1e6)))


class BlockingSession(BlockingLifecycle, PingedClient):
    """A session on a blocking socket. Safe to use from any thread; requests of several threads wait for one another."""

    def __init__(self, endpoint: Endpoint, session_id: str | None = None) -> None:
        super().__init__(endpoint, session_id)
        self._lock = threading.RLock()
        self._connection: BlockingConnection | None = None

    def request(self, request: Request, read: Callable[[dict[str, Any]], ResultT]) -> ResultT:
        """Send a request and return what `read` makes of the response's data."""
        with self._lock:
            session, connection = self._session, self._connection
            if session is None or connection is None or session.lost is not None:
                session, connection = self._usable(may_replace=request.kind == "reset")
            pending = session.begin(request)
            try:
                connection.send(pending.frame, pending.deadline)
                connection.wait_for(pending)
            except SessionLost as error:
                self._recover(session, pending, error)
            finally:
                if pending.data is None:
                    session.abandon(pending)
        if pending.error is not None:
            raise pending.error
        assert pending.data is not None
        return read(pending.data)

    def send(self, request: Request) -> Pending:
        """Send a request whose response `receive` waits for. A broken connection is noticed there."""
        with self._lock:
            session, connection = self._usable(may_replace=request.kind == "reset")
            pending = session.begin(request)
            with contextlib.suppress(SessionLost):
                connection.send(pending.frame, pending.deadline)
            return pending

    def receive(self, pending: Pending, timeout_s: float) -> dict[str, Any]:
        """The data of a response. Raises AnswerTimeout, after which it can be received later, or as `request`."""
        with self._lock:
            session, connection = self._session, self._connection
            if session is None or connection is None:
                raise SessionLost("the session was closed while a request was under way")
            pending.deadline = time.monotonic() + timeout_s
            try:
                connection.wait_for(pending)
            except SessionLost as error:
                self._recover(session, pending, error)
        if pending.error is not None:
            raise pending.error
        assert pending.data is not None
        return pending.data

    @property
    def has_response(self) -> bool:
        """Whether `receive` may return although the socket shows nothing to read."""
        return self._connection is None or self._connection.has_message

    def fileno(self) -> int:
        """The socket's file descriptor, to wait on."""
        return -1 if self._connection is None else self._connection.fileno()

    def connect(self) -> None:
        """Open the session unless it is open."""
        with self._lock:
            if self._session is None:
                self._open(may_replace=False)

    def _usable(self, *, may_replace: bool) -> tuple[ClientSession, BlockingConnection]:
        """The open session. may_replace: open a new one in place of one that is lost."""
        with self._lock:
            if may_replace and self._session is not None and self._session.lost is not None:
                self._end()
                self._attach_to = None
            if self._session is None:
                self._open(may_replace=may_replace)
            assert self._session is not None
            assert self._connection is not None
            return self._session, self._connection

    def _open(self, *, may_replace: bool) -> None:
        self._session, self._connection = self._with_server(self._new_session, may_replace=may_replace)
        if not self._session.is_extended:
            _PONG_THREAD.add(self)

    def _new_session(self) -> tuple[ClientSession, BlockingConnection]:
        """Open a session. A connection that breaks before the server has named it has lost nothing: try another."""
        address = self._endpoint.address
        session = ClientSession(self._attach_to, address.message_timeout_s)
        gives_up_at = time.monotonic() + address.connect_timeout_s
        while True:
            try:
                timeout_s = address.message_timeout_s if self._attach_to is None else address.connect_timeout_s
                return session, self._attach(session, timeout_s)
            except SessionGone:
                raise
            except SessionLost:
                if time.monotonic() > gives_up_at:
                    raise
                time.sleep(FIRST_PAUSE_S)

    def _attach(self, session: ClientSession, timeout_s: float) -> BlockingConnection:
        """Connect and wait for the server's hello."""
        hello = session.expect_hello(timeout_s)
        connection = BlockingConnection(self._endpoint.address, session)
        if not session.is_extended:
            return connection
        try:
            connection.wait_for(hello)
            if hello.error is not None:
                raise hello.error
        except OpenEnvError as error:
            connection.close()
            raise session.hello_error(error) from error
        return connection

    def _recover(self, session: ClientSession, pending: Pending, error: SessionLost) -> None:
        """Attach to the session again, repeat the requests under way, and wait for this one."""
        while True:
            session.connection_lost(str(error))
            if pending.error is not None:
                return
            connection = self._connection = self._reconnected(session, pending.deadline, error)
            try:
                for frame in session.frames_to_repeat():
                    connection.send(frame, pending.deadline)
                connection.wait_for(pending)
            except SessionLost as again:
                error = again
            else:
                return

    def _reconnected(self, session: ClientSession, deadline: float, error: SessionLost) -> BlockingConnection:
        plan = session.reconnection(error)
        while True:
            if time.monotonic() + plan.pause_s > deadline:
                raise AnswerTimeout(f"no answer in time: {error}") from error
            time.sleep(plan.pause_s)
            try:
                return self._attach(session, deadline - time.monotonic())
            except (SessionGone, Unauthorized) as gone:
                session.end(gone)
                raise
            except OSError as still:
                if not plan.allows_retry(still):
                    assert session.lost is not None
                    raise session.lost from error

    def _end(self) -> None:
        """End the session. The server's place is free when this returns, unless it takes long."""
        with self._lock:
            _PONG_THREAD.discard(self)
            session, connection = self._session, self._connection
            self._session = self._connection = None
            if session is None or connection is None:
                return
            if session.lost is None:
                connection.end_session()
            session.end(SessionLost("the session was closed: reset() starts a new episode in a new one"))
            connection.close()

    def leave_to_parent(self) -> None:
        """Called in a forked child."""
        self._lock = threading.RLock()
        if self._session is not None and self._connection is not None:
            self._session.end(SessionLost(FORKED))
            self._connection.drop()

    def answer_pings(self) -> None:
        """Answer the server's pings unless a request is under way."""
        if self._lock.acquire(blocking=False):
            try:
                if self._connection is not None:
                    self._connection.answer_pings()
            finally:
                self._lock.release()
