"""Request and answer over one WebSocket connection, blocking or for asyncio. Answers come in the order of requests."""

import asyncio
import socket
import ssl
import threading
import time
import weakref
from collections import deque
from typing import Any, Protocol

from websockets.uri import WebSocketURI

from openenv.core.errors import AnswerTimeout, ServerUnreachable, SessionLost
from openenv.core.requests import ANSWER_TYPE, answer_data, encode_request
from openenv.core.websocket_protocol import WebSocketProtocol

_READ_BYTES = 1 << 16
_IDLE_CHECK_S = 5.0


class BlockingRequests(Protocol):
    """What a synchronous client needs of a connection."""

    @property
    def is_open(self) -> bool: ...
    def ask(self, kind: str, data: Any, timeout_s: float) -> dict[str, Any]: ...
    def close(self) -> None: ...


class AsyncRequests(Protocol):
    """What an asynchronous client needs of a connection."""

    @property
    def is_open(self) -> bool: ...
    async def ask(self, kind: str, data: Any, timeout_s: float) -> dict[str, Any]: ...
    async def close(self) -> None: ...


class BlockingConnection:
    """A connection on a blocking socket: no event loop, no thread for each connection. Safe to use from any thread."""

    def __init__(self, uri: WebSocketURI, connect_timeout_s: float, max_size: int, headers: dict[str, str]) -> None:
        """Connect. Raises ServerUnreachable when nobody answers at `uri` in time."""
        self._lock = threading.Lock()
        self._inbox: deque[bytes] = deque()
        self._unanswered = 0  # requests whose answers nobody waits for any more
        self._socket = _open_socket(uri, connect_timeout_s)
        self._protocol = WebSocketProtocol(uri, max_size, headers)
        try:
            self._flush()
            while self._protocol.is_connecting:
                self._receive(time.monotonic() + connect_timeout_s)
        except (OSError, AnswerTimeout) as error:
            self._socket.close()
            raise ServerUnreachable(
                f"{uri.host}:{uri.port} did not complete the WebSocket handshake: {error}"
            ) from error
        _ANSWERING_PINGS.add(self)

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._protocol.is_open

    def exchange(self, message: bytes, timeout_s: float) -> bytes:
        """Send a request, return its answer. Raises AnswerTimeout or SessionLost."""
        with self._lock:
            deadline = time.monotonic() + timeout_s
            if not self.is_open and self._inbox:
                return self._inbox.popleft()  # the server said why before it closed
            self._protocol.send(message)
            try:
                self._flush()
                self._unanswered += 1
                while True:
                    while self._inbox:
                        self._unanswered -= 1
                        answer = self._inbox.popleft()
                        if self._unanswered == 0:
                            return answer
                    self._receive(deadline)
            except OSError as error:
                if isinstance(error, AnswerTimeout | SessionLost):
                    raise
                self._protocol.connection_lost()
                raise SessionLost(f"{error}: {self._protocol.reason()}") from error

    def ask(self, kind: str, data: Any, timeout_s: float) -> dict[str, Any]:
        """Send a request of that type, return its answer's data. Raises what an error answer stands for."""
        return answer_data(self.exchange(encode_request(kind, data), timeout_s), ANSWER_TYPE[kind])

    def close(self) -> None:
        """Say goodbye and close the socket."""
        with self._lock:
            _ANSWERING_PINGS.discard(self)
            try:
                self._protocol.close()
                self._flush()
            except OSError:
                pass  # the other side is gone already: there is nobody to say goodbye to
            finally:
                self._socket.close()

    def answer_pings(self) -> None:
        """Answer the server's pings while nobody waits for an answer, so that it does not take the client for dead."""
        if not self._lock.acquire(blocking=False):
            return
        try:
            self._receive(time.monotonic())
        except (OSError, SessionLost):
            pass  # nothing to read, or closed: the next request says so to somebody who can act on it
        finally:
            self._lock.release()

    def _flush(self) -> None:
        data = self._protocol.outgoing()
        if data:
            self._socket.sendall(data)

    def _receive(self, deadline: float) -> None:
        """Read once from the socket, at the latest until `deadline` (monotonic seconds)."""
        self._socket.settimeout(max(deadline - time.monotonic(), 1e-4))
        try:
            data = self._socket.recv(_READ_BYTES)
        except TimeoutError:
            raise AnswerTimeout("no answer in time; the session lives and its late answer will be dropped") from None
        self._inbox.extend(self._protocol.receive(data))
        self._flush()
        if not data or not (self._protocol.is_open or self._inbox):
            raise SessionLost(self._protocol.reason())


def _open_socket(uri: WebSocketURI, timeout_s: float) -> socket.socket:
    try:
        connection = socket.create_connection((uri.host, uri.port), timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if uri.secure:
            connection = ssl.create_default_context().wrap_socket(connection, server_hostname=uri.host)
    except OSError as error:
        raise ServerUnreachable(
            f"no environment answers at {uri.host}:{uri.port} ({error}): is the server running?"
        ) from error
    return connection


class _PingAnswerer:
    """One thread for all blocking connections of the process, started with the first of them."""

    def __init__(self) -> None:
        self._connections: weakref.WeakSet[BlockingConnection] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, connection: BlockingConnection) -> None:
        with self._lock:
            self._connections.add(connection)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="answer pings", daemon=True)
                self._thread.start()

    def discard(self, connection: BlockingConnection) -> None:
        with self._lock:
            self._connections.discard(connection)

    def _run(self) -> None:
        while True:
            time.sleep(_IDLE_CHECK_S)
            with self._lock:
                if not self._connections:
                    self._thread = None
                    return
                connections = list(self._connections)
            for connection in connections:
                connection.answer_pings()


_ANSWERING_PINGS = _PingAnswerer()


class AsyncConnection(asyncio.Protocol):
    """A connection in an event loop. Any number of requests may be under way; each gets its own answer."""

    def __init__(self, uri: WebSocketURI, max_size: int, headers: dict[str, str]) -> None:
        self._protocol = WebSocketProtocol(uri, max_size, headers)
        self._waiting: deque[asyncio.Future[bytes]] = deque()
        self._unasked: deque[bytes] = deque(maxlen=1)
        self._opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._transport: asyncio.Transport | None = None

    @classmethod
    async def open(
        cls, uri: WebSocketURI, connect_timeout_s: float, max_size: int, headers: dict[str, str]
    ) -> "AsyncConnection":
        """Connect. Raises ServerUnreachable when nobody answers at `uri` in time."""
        loop = asyncio.get_running_loop()
        context = ssl.create_default_context() if uri.secure else None
        try:
            async with asyncio.timeout(connect_timeout_s):
                _, connection = await loop.create_connection(
                    lambda: cls(uri, max_size, headers), uri.host, uri.port, ssl=context
                )
                await connection._opened
        except OSError as error:
            if isinstance(error, ServerUnreachable):
                raise
            raise ServerUnreachable(
                f"no environment answers at {uri.host}:{uri.port} ({error}): is the server running?"
            ) from error
        return connection

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._protocol.is_open

    async def exchange(self, message: bytes, timeout_s: float) -> bytes:
        """Send a request, return its answer. Raises AnswerTimeout or SessionLost."""
        if not self.is_open and self._unasked:
            return self._unasked.popleft()  # the server said why before it closed
        self._protocol.send(message)
        answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
        self._waiting.append(answer)
        self._flush()
        try:
            async with asyncio.timeout(timeout_s):
                return await answer
        except TimeoutError:
            raise AnswerTimeout("no answer in time; the session lives and its late answer will be dropped") from None

    async def ask(self, kind: str, data: Any, timeout_s: float) -> dict[str, Any]:
        """Send a request of that type, return its answer's data. Raises what an error answer stands for."""
        return answer_data(await self.exchange(encode_request(kind, data), timeout_s), ANSWER_TYPE[kind])

    async def close(self) -> None:
        """Say goodbye, wait shortly for the other side's, and close the socket."""
        if self._transport is None:
            return
        self._protocol.close()
        self._flush()
        try:
            async with asyncio.timeout(1.0):
                await asyncio.shield(self._closed)
        except TimeoutError:
            self._transport.abort()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop: the socket is open, the handshake begins."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop: hand each whole message to the request that waits longest."""
        try:
            for message in self._protocol.receive(data):
                if self._waiting:
                    waiter = self._waiting.popleft()
                    if not waiter.done():  # else its request timed out or was cancelled: the answer is dropped
                        waiter.set_result(message)
                else:
                    self._unasked.append(message)
        except ServerUnreachable as error:
            self._opened.set_exception(error)
        if not self._protocol.is_connecting and not self._opened.done():
            self._opened.set_result(None)
        self._flush()

    def eof_received(self) -> None:
        """Called by the event loop: the server will send nothing more."""
        self.data_received(b"")

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the event loop: the socket is closed. Whoever waits for an answer is told."""
        self._protocol.connection_lost()
        reason = self._protocol.reason()
        for waiter in self._waiting:
            if not waiter.done():
                waiter.set_exception(SessionLost(f"{error}: {reason}" if error else reason))
        self._waiting.clear()
        if not self._opened.done():
            self._opened.set_exception(ServerUnreachable(reason))
        self._closed.set_result(None)

    def _flush(self) -> None:
        data = self._protocol.outgoing()
        if data and self._transport is not None:
            self._transport.write(data)
        if not self._protocol.is_open and self._opened.done() and self._transport is not None:
            self._transport.close()
