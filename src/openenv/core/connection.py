"""One WebSocket connection: whole messages out and in, on a blocking socket or in an event loop."""

import asyncio
import contextlib
import socket
import ssl
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import cast

from websockets.uri import WebSocketURI

from openenv.core.errors import AnswerTimeout, ServerUnreachable, SessionLost
from openenv.core.websocket_protocol import WebSocketProtocol, websocket_uri

_READ_BYTES = 1 << 16
_IDLE_CHECK_S = 5.0


@dataclass(frozen=True, kw_only=True)
class Address:
    """Where a server is, and how to speak to it."""

    base_url: str
    connect_timeout_s: float = 10.0
    max_size: int = 100 << 20
    headers: dict[str, str] = field(default_factory=dict)

    def uri(self, session_id: str | None) -> WebSocketURI:
        """The address of `/ws`, for a new session or for the one of that id."""
        return websocket_uri(self.base_url, query=f"session_id={session_id}" if session_id else "")


class BlockingConnection:
    """A connection on a blocking socket: no event loop, no thread for each connection. One thread at a time."""

    def __init__(self, address: Address, session_id: str | None = None) -> None:
        """Connect. Raises ServerUnreachable when nobody answers in time."""
        uri = address.uri(session_id)
        self._inbox: deque[bytes] = deque()
        self._write_timeout_s = max(60.0, address.connect_timeout_s)
        self._socket = _open_socket(uri, address.connect_timeout_s)
        self._protocol = WebSocketProtocol(uri, address.max_size, address.headers)
        deadline = time.monotonic() + address.connect_timeout_s
        try:
            self._flush()
            while self._protocol.is_connecting:
                self._read(deadline)
        except OSError as error:
            self._socket.close()
            raise ServerUnreachable(
                f"{uri.host}:{uri.port} did not complete the WebSocket handshake: {error}"
            ) from error

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._protocol.is_open

    @property
    def subprotocol(self) -> str | None:
        """What the server chose."""
        return self._protocol.subprotocol

    def send(self, message: bytes) -> None:
        """Send a message. Raises SessionLost when the connection is broken."""
        try:
            self._protocol.send(message)
            self._flush()
        except OSError as error:
            raise self._lost(error) from error

    def receive(self, deadline: float) -> bytes:
        """The next message. Raises AnswerTimeout at `deadline` (monotonic seconds), SessionLost when there is none."""
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
            if (
                len(data) > _READ_BYTES
            ):  # may have to wait for the other side: not for as long as the last read had left
                self._socket.settimeout(self._write_timeout_s)
            self._socket.sendall(data)

    def _read(self, deadline: float) -> None:
        """Read once from the socket, at the latest until `deadline` (monotonic seconds)."""
        self._socket.settimeout(max(deadline - time.monotonic(), 1e-4))
        try:
            data = self._socket.recv(_READ_BYTES)
        except TimeoutError:
            raise AnswerTimeout("no answer in time; the session lives and its late answer will be dropped") from None
        self._inbox.extend(self._protocol.receive(data))
        if data:
            self._flush()
        else:
            self._protocol.connection_lost()


def _open_socket(uri: WebSocketURI, timeout_s: float) -> socket.socket:
    try:
        connection = socket.create_connection((uri.host, uri.port), timeout_s)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if uri.secure:
            connection = ssl.create_default_context().wrap_socket(connection, server_hostname=uri.host)
    except OSError as error:
        raise unreachable(uri, error) from error
    return connection


def unreachable(uri: WebSocketURI, error: Exception) -> ServerUnreachable:
    """The error for an address where nobody answers."""
    return ServerUnreachable(f"no environment answers at {uri.host}:{uri.port} ({error}): is the server running?")


class PingAnswerer:
    """One thread for all idle clients of the process, started with the first of them.

    A server may take a client that answers no pings for dead; a blocking client answers none while it computes.
    """

    def __init__(self) -> None:
        self._clients: weakref.WeakSet[IdleClient] = weakref.WeakSet()
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, client: "IdleClient") -> None:
        """Look after a client until it is discarded or forgotten."""
        with self._lock:
            self._clients.add(client)
            if self._thread is None or not self._thread.is_alive():
                self._thread = threading.Thread(target=self._run, name="answer pings", daemon=True)
                self._thread.start()

    def discard(self, client: "IdleClient") -> None:
        """Look after a client no longer."""
        with self._lock:
            self._clients.discard(client)

    def _run(self) -> None:
        while True:
            time.sleep(_IDLE_CHECK_S)
            with self._lock:
                if not self._clients:
                    self._thread = None
                    return
                clients = list(self._clients)
            for client in clients:
                client.answer_pings()


class IdleClient:
    """What the ping answerer needs of a client."""

    def answer_pings(self) -> None:
        """Answer the server's pings unless the client is busy, which answers them anyway."""
        raise NotImplementedError


class AsyncConnection(asyncio.Protocol):
    """A connection in an event loop: messages go out at once and come in through a callback."""

    def __init__(self, uri: WebSocketURI, address: Address) -> None:
        loop = asyncio.get_running_loop()
        self._protocol = WebSocketProtocol(uri, address.max_size, address.headers)
        self._transport: asyncio.Transport | None = None
        self._opened: asyncio.Future[None] = loop.create_future()
        self._closed: asyncio.Future[None] = loop.create_future()
        self._early: list[bytes] = []
        self.on_message: Callable[[bytes], None] = self._early.append
        self.on_lost: Callable[[], None] = _nothing

    @classmethod
    async def open(cls, address: Address, session_id: str | None = None) -> "AsyncConnection":
        """Connect. Raises ServerUnreachable when nobody answers in time."""
        uri = address.uri(session_id)
        context = ssl.create_default_context() if uri.secure else None
        connection = cls(uri, address)
        try:
            async with asyncio.timeout(address.connect_timeout_s):
                await asyncio.get_running_loop().create_connection(lambda: connection, uri.host, uri.port, ssl=context)
                await connection._opened
        except OSError as error:
            connection.abort()
            raise error if isinstance(error, ServerUnreachable) else unreachable(uri, error) from error
        except asyncio.CancelledError:
            connection.abort()
            raise
        return connection

    def listen(self, on_message: Callable[[bytes], None], on_lost: Callable[[], None]) -> None:
        """Hand every message, those that have come already too, to `on_message`; the end to `on_lost`."""
        self.on_message, self.on_lost = on_message, on_lost
        for message in self._early:
            on_message(message)
        if self._closed.done():
            on_lost()

    @property
    def is_open(self) -> bool:
        """Whether messages can be sent."""
        return self._protocol.is_open

    @property
    def subprotocol(self) -> str | None:
        """What the server chose."""
        return self._protocol.subprotocol

    def reason(self) -> str:
        """Why the connection is closed."""
        return self._protocol.reason()

    def send(self, message: bytes) -> None:
        """Send a message. Raises SessionLost when the connection is broken."""
        self._protocol.send(message)
        self._flush()

    def abort(self) -> None:
        """Close the socket at once."""
        self.on_lost = _nothing
        if self._transport is not None:
            self._transport.abort()

    async def close(self) -> None:
        """Say goodbye, wait shortly for the other side's, and close the socket."""
        self.on_lost = _nothing
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
        self._transport = cast(asyncio.Transport, transport)  # uvloop's transports do not inherit from asyncio's
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop: hand on each whole message."""
        try:
            for message in self._protocol.receive(data):
                self.on_message(message)
        except ServerUnreachable as error:
            self._opened.set_exception(error)
        if not self._protocol.is_connecting and not self._opened.done():
            self._opened.set_result(None)
        self._flush()

    def eof_received(self) -> None:
        """Called by the event loop: the server will send nothing more."""
        self.data_received(b"")

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the event loop: the socket is closed."""
        self._protocol.connection_lost()
        if not self._opened.done():
            self._opened.set_exception(ServerUnreachable(f"{error or 'closed'}: {self._protocol.reason()}"))
        self._closed.set_result(None)
        self.on_lost()

    def _flush(self) -> None:
        data = self._protocol.outgoing()
        if data and self._transport is not None:
            self._transport.write(data)
        if not self._protocol.is_open and self._opened.done() and self._transport is not None:
            self._transport.close()


def _nothing() -> None:
    return
