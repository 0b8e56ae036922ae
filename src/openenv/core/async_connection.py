"""One WebSocket connection in an event loop: whole messages out, and in through a callback."""

import asyncio
import errno
import os
import socket
import ssl
from collections.abc import Callable
from typing import cast

from websockets.uri import WebSocketURI

from openenv.core.connection import Address, unreachable
from openenv.core.errors import ServerUnreachable, Unauthorized
from openenv.core.frames import TEXT, server_frame
from openenv.core.local_socket import connected_beside
from openenv.core.shared_trunks import trunk_for
from openenv.core.trunk import Trunk
from openenv.core.trunk_transport import TrunkTransport
from openenv.core.watching import Line, LoopWatch
from openenv.core.websocket_protocol import WebSocketProtocol

_GOODBYE_S = 1.0
"""How long the other side has to answer ours."""


class AsyncConnection(asyncio.Protocol):
    """A connection in an event loop: messages go out at once and come in through a callback."""

    def __init__(self, uri: WebSocketURI, address: Address) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._watch: LoopWatch | None = LoopWatch.of(loop)
        """None: the connection shares a trunk, which watches."""
        self._protocol = WebSocketProtocol(uri, address.max_size, address.headers, reads_arrays=address.reads_arrays)
        self._max_size = address.max_size
        self._ping_interval_s, self._ping_timeout_s = address.ping_interval_s, address.ping_timeout_s
        self._is_silent = False  # since the last ping
        self._next_check: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._shared: TrunkTransport | None = None
        """The transport where it is a trunk's whose other end takes texts without frames."""
        self._line: Line | None = None
        self._opened: asyncio.Future[None] = loop.create_future()
        self._is_closed = False
        self._until_lost: asyncio.Future[None] | None = None
        """Whoever waits for the socket to close."""
        self._early: list[bytes] = []
        self.on_message: Callable[[bytes], None] = self._early.append
        self.on_lost: Callable[[], None] = _nothing

    @classmethod
    async def open(cls, address: Address, session_id: str | None = None) -> "AsyncConnection":
        """Connect. Raises ServerUnreachable when nobody answers in time, Unauthorized when the token is not right."""
        return await cls._open(address, session_id, may_share=True)

    @classmethod
    async def _open(cls, address: Address, session_id: str | None, *, may_share: bool) -> "AsyncConnection":
        uri = address.uri(session_id)
        trunk: Trunk | None = None
        context = ssl.create_default_context() if uri.secure else None
        connection = cls(uri, address)
        try:
            async with asyncio.timeout(address.connect_timeout_s):
                if address.unix_path is not None:
                    await connection._loop.create_unix_connection(lambda: connection, address.unix_path)
                elif context is None and may_share and (trunk := trunk_for(connection, uri.host, uri.port)):
                    trunk.connect(connection)
                elif context is None and (beside := connected_beside(uri.host, uri.port)):
                    await connection._loop.create_unix_connection(lambda: connection, sock=beside)
                elif context is None and (numeric := _numeric(uri.host, uri.port)):
                    connected = await _connected(connection._loop, *numeric)
                    await connection._loop.create_connection(lambda: connection, sock=connected)
                else:
                    await connection._loop.create_connection(lambda: connection, uri.host, uri.port, ssl=context)
                await connection._opened
        except OSError as error:
            connection.abort()
            if trunk is not None and trunk.is_broken:  # by a server that is gone; another may be there
                return await cls._open(address, session_id, may_share=False)
            raise error if isinstance(error, ServerUnreachable) else unreachable(address, error) from error
        except (asyncio.CancelledError, Unauthorized):
            connection.abort()
            raise
        connection._ping_later()
        return connection

    def listen(self, on_message: Callable[[bytes], None], on_lost: Callable[[], None]) -> None:
        """Hand every message, those that have come already too, to `on_message`; the end to `on_lost`."""
        self.on_message, self.on_lost = on_message, on_lost
        for message in self._early:
            self.on_message(message)
        if self._is_closed:
            on_lost()

    @property
    def is_closed(self) -> bool:
        """Whether its socket is."""
        return self._is_closed

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
        shared = self._shared
        if shared is not None and type(message) is bytes and self._protocol.is_open and shared.write_text(message):
            return
        frame = self._protocol.frame(message)
        assert self._transport is not None
        self._transport.write(frame)
        if self._watch is not None:
            self._watch.expect(self._loop, self._line)

    def abort(self) -> None:
        """Close the socket at once."""
        self.on_lost = _nothing
        if self._transport is not None:
            self._transport.abort()

    async def say_last(self, message: bytes, wait_s: float) -> None:
        """Send a message, if that is possible, and wait that long for the server to close the connection."""
        self.on_lost = _nothing
        if self.is_open:
            self.send(message)
            await self._until_closed(wait_s)

    async def close(self) -> None:
        """Say goodbye, wait shortly for the other side's, and close the socket."""
        self.on_lost = _nothing
        if self._transport is None or self._is_closed:
            return
        self._protocol.close()
        self._flush()
        await self._until_closed(_GOODBYE_S)
        self._transport.abort()

    async def _until_closed(self, wait_s: float) -> None:
        """Return when both sides have said goodbye, or the socket is closed, or after that long."""
        if self._is_closed:
            return
        waiting = self._until_lost = self._loop.create_future()
        impatient = self._loop.call_later(wait_s, _done, waiting)
        try:
            await waiting
        finally:
            impatient.cancel()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop: the socket is open, the handshake begins."""
        self._line = Line.of(transport, self.data_received)
        if isinstance(transport, TrunkTransport):
            self._watch = None
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by name
        self._flush()

    def data_received(self, data: bytes) -> None:
        """Called by the event loop: hand on each whole message."""
        self._is_silent = False
        if self._watch is not None:
            self._watch.heard(self._line)
        text = self._protocol.whole_text(data)
        if text is not None:
            self.on_message(text)
            return
        try:
            for message in self._protocol.receive(data):
                self.on_message(message)
        except (ServerUnreachable, Unauthorized) as error:
            if not self._opened.done():
                self._opened.set_exception(error)
        if not self._protocol.is_connecting and not self._opened.done():
            self._opened.set_result(None)
            self._expect()  # the session's name comes next
        self._flush()

    def text_received(self, text: bytes) -> None:
        """Called by a trunk: a text message that came without a frame, as ours may go from now on."""
        if self._shared is None and isinstance(self._transport, TrunkTransport):
            self._shared = self._transport
        self._is_silent = False
        if len(text) <= self._max_size:
            self.on_message(text)
        else:
            self.data_received(server_frame(TEXT, text))

    def eof_received(self) -> None:
        """Called by the event loop: the server will send nothing more."""
        self.data_received(b"")

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the event loop: the socket is closed."""
        self._protocol.connection_lost()
        if self._next_check is not None:
            self._next_check.cancel()
        if not self._opened.done():
            self._opened.set_exception(ServerUnreachable(f"{error or 'closed'}: {self._protocol.reason()}"))
        self._is_closed = True
        if self._until_lost is not None:
            _done(self._until_lost)
        self.on_lost()

    def _ping_later(self, already_waited_s: float = 0.0) -> None:
        if self._ping_interval_s is not None:
            self._next_check = self._loop.call_later(max(self._ping_interval_s - already_waited_s, 0.0), self._ping)

    def _ping(self) -> None:
        """Ask the server for a sign of life; anything that comes is one."""
        self._is_silent = True
        self._protocol.ping()
        self._flush()
        if self._ping_timeout_s is None:
            self._ping_later()
        else:
            self._next_check = self._loop.call_later(self._ping_timeout_s, self._check_silence)

    def _check_silence(self) -> None:
        assert self._ping_timeout_s is not None
        assert self._transport is not None
        if self._is_silent:
            self._protocol.connection_lost(f"the server answered no ping in {self._ping_timeout_s:g} s")
            self._transport.abort()  # without a goodbye, which nobody would hear
        else:
            self._ping_later(already_waited_s=self._ping_timeout_s)

    def _expect(self) -> None:
        if self._watch is not None:
            self._watch.expect(self._loop)

    def _flush(self) -> None:
        data = self._protocol.outgoing()
        if data and self._transport is not None:
            self._transport.write(data)
            self._expect()
        if not self._protocol.is_open and self._opened.done() and self._transport is not None:
            self._transport.close()
            if self._until_lost is not None:
                _done(self._until_lost)


def _nothing() -> None:
    return


def _done(future: "asyncio.Future[None]") -> None:
    if not future.done():
        future.set_result(None)


def _numeric(host: str, port: int) -> tuple[socket.AddressFamily, tuple[str, int]] | None:
    """The socket address of a host that is given by number, whose name need not be asked for; None for a name."""
    for family in (socket.AF_INET, socket.AF_INET6):
        try:
            socket.inet_pton(family, host)
        except OSError:
            continue
        return family, (host, port)
    return None


async def _connected(
    loop: asyncio.AbstractEventLoop, family: socket.AddressFamily, address: tuple[str, int]
) -> socket.socket:
    """A socket that is connected, on the same machine without a turn of the event loop."""
    connection = socket.socket(family, socket.SOCK_STREAM)
    try:
        connection.setblocking(False)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)  # asyncio only does where it made the socket
        begun = connection.connect_ex(address)
        if begun == errno.EINPROGRESS:
            begun = connection.connect_ex(address)  # it may have succeeded already
        if begun == errno.EALREADY:
            await loop.sock_connect(connection, address)
        elif begun not in (0, errno.EISCONN):
            raise OSError(begun, os.strerror(begun))
    except BaseException:
        connection.close()
        raise
    return connection
