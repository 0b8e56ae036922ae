"""A client's session in an event loop."""

import asyncio
import contextlib
import math
import ssl
import time
from collections.abc import Callable, Coroutine
from functools import partial
from typing import Any, TypeVar, cast

from openenv.core.client.address import Address, Endpoint
from openenv.core.client.keepalive import PingAction, PingSchedule
from openenv.core.client.lifecycle import AsyncLifecycle
from openenv.core.client.session import CLOSE_TIMEOUT_S, FIRST_PAUSE_S, FORKED, ClientSession
from openenv.core.errors import OpenEnvError, RequestRefused, ServerUnreachable, SessionGone, SessionLost, Unauthorized
from openenv.core.net.busy_poll import LoopSpinner
from openenv.core.net.frames import BINARY, TEXT, client_frame
from openenv.core.net.websocket_protocol import WebSocketProtocol
from openenv.core.wire.arrays import BinaryFrame
from openenv.core.wire.client_codec import CLOSE, Request
from openenv.core.wire.constants import MAX_IN_FLIGHT

ResultT = TypeVar("ResultT")

_CLOSE_FRAME_S = 1.0
"""How long the server has to answer a close frame."""

_OTHER_LOOP = (
    "the session belongs to an event loop that has ended: reset() starts a new episode in a session of its own"
)


class AsyncConnection(asyncio.Protocol):
    """One WebSocket connection of a session. Messages are passed to the session as they arrive."""

    def __init__(self, address: Address, session: ClientSession, on_lost: Callable[[str], None]) -> None:
        """on_lost: called with the reason when the connection breaks, but not after `abort` or `close`."""
        self._loop = asyncio.get_running_loop()
        self._address = address
        self._uri = address.uri(session.session_id)
        self._session = session
        self._opens_session = session.session_id is None
        self._on_lost: Callable[[str], None] | None = on_lost
        self._on_message = session.receive
        self._spinner = LoopSpinner.of(self._loop)
        self._protocol = WebSocketProtocol(
            self._uri,
            address.max_size,
            address.headers,
            reads_arrays=address.reads_arrays,
            on_open=self._on_open,
            on_message=session.receive,
        )
        self._pings = PingSchedule(address.ping_interval_s, address.ping_timeout_s, time.monotonic())
        self._next_check: asyncio.TimerHandle | None = None
        self._transport: asyncio.Transport | None = None
        self._opened: asyncio.Future[None] = self._loop.create_future()
        self._closed: asyncio.Future[None] = self._loop.create_future()

    async def open(self) -> None:
        """Connect. Raises ServerUnreachable when there is no connection in time, Unauthorized, or CapacityReached."""
        address, uri = self._address, self._uri
        try:
            async with asyncio.timeout(address.connect_timeout_s):
                if address.unix_path is not None:
                    await self._loop.create_unix_connection(lambda: self, address.unix_path)
                else:
                    context = ssl.create_default_context() if uri.secure else None
                    await self._loop.create_connection(lambda: self, uri.host, uri.port, ssl=context)
                self._flush()  # the handshake; not before, as a cancelled create_connection sends no close frame
                await self._opened
        except RequestRefused:
            self.abort()
            raise
        except OSError as error:
            self.abort()
            raise error if isinstance(error, ServerUnreachable) else address.unreachable(error) from error
        except asyncio.CancelledError:
            self.cancel()
            raise
        self._check_silence()

    def send(self, message: bytes) -> None:
        """Send a message. Raises SessionLost when the connection is broken."""
        if not self._protocol.is_open:
            raise SessionLost(self._protocol.reason())
        assert self._transport is not None
        self._transport.write(client_frame(BINARY if type(message) is BinaryFrame else TEXT, message))
        self._spinner.arm(self._loop)

    def abort(self) -> None:
        """Close the socket at once."""
        self._on_lost = None
        if self._transport is not None:
            self._transport.abort()

    def cancel(self) -> None:
        """Give the connection up before the server has named its session. The server ends a session that is new."""
        if self._opens_session:
            self._protocol.close()
            self._flush()
        self._on_lost = None
        if self._transport is not None:
            self._transport.close()

    async def end_session(self) -> None:
        """Send CLOSE and wait until the server has closed the connection, for a limited time."""
        self._on_lost = None
        if self._protocol.is_open:
            self.send(CLOSE)
            await self._until_closed(CLOSE_TIMEOUT_S)

    async def close(self) -> None:
        """Send a close frame, wait shortly for the server's, and close the socket."""
        self._on_lost = None
        if self._transport is None or self._closed.done():
            return
        self._protocol.close()
        self._flush()
        await self._until_closed(_CLOSE_FRAME_S)
        self._transport.abort()

    async def _until_closed(self, timeout_s: float) -> None:
        """Return when both ends have sent a close frame, or the socket is closed, or after that long."""
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(asyncio.shield(self._closed), timeout_s)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the event loop: the socket is open."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's do not inherit from asyncio's

    def data_received(self, data: bytes) -> None:
        """Called by the event loop: pass on each whole message."""
        self._pings.last_received = time.monotonic()
        self._spinner.received()
        text = self._protocol.whole_text(data)
        if text is not None:
            self._on_message(text)
            return
        try:
            self._protocol.receive(data)
        except (ServerUnreachable, RequestRefused) as error:
            if not self._opened.done():
                self._opened.set_exception(error)
        self._flush()

    def eof_received(self) -> None:
        """Called by the event loop: the server sends nothing more."""
        self.data_received(b"")

    def connection_lost(self, error: Exception | None) -> None:
        """Called by the event loop: the socket is closed."""
        self._protocol.connection_lost()
        if self._next_check is not None:
            self._next_check.cancel()
        if not self._opened.done():
            self._opened.set_exception(ServerUnreachable(f"{error or 'closed'}: {self._protocol.reason()}"))
        self._set_closed()
        if self._on_lost is not None:
            self._on_lost(self._protocol.reason())

    def _on_open(self, subprotocol: str | None) -> None:
        self._session.connected(subprotocol)
        if not self._opened.done():
            self._opened.set_result(None)
        self._spinner.arm(self._loop)  # the server's hello comes next

    def _check_silence(self) -> None:
        action = self._pings.check(time.monotonic())
        if action is PingAction.GIVE_UP and self._transport is not None:
            self._protocol.connection_lost(self._pings.reason())
            self._transport.abort()
            return
        if action is PingAction.SEND_PING:
            self._protocol.ping()
            self._flush()
        if self._pings.due < math.inf and not self._closed.done():
            self._next_check = self._loop.call_later(max(self._pings.due - time.monotonic(), 0.0), self._check_silence)

    def _flush(self) -> None:
        data = self._protocol.outgoing()
        if data and self._transport is not None:
            self._transport.write(data)
            self._spinner.arm(self._loop)
        if not self._protocol.is_open and self._opened.done() and self._transport is not None:
            self._transport.close()
            self._set_closed()

    def _set_closed(self) -> None:
        if not self._closed.done():
            self._closed.set_result(None)


class AsyncSession(AsyncLifecycle):
    """A session in an event loop. Any number of requests may be under way; each gets its own response."""

    def __init__(self, endpoint: Endpoint, session_id: str | None = None) -> None:
        super().__init__(endpoint, session_id)
        self._connection: AsyncConnection | None = None
        self._in_flight = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._reconnecting: asyncio.Task[None] | None = None
        self._next_check = math.inf
        """When deadlines are checked next, in monotonic seconds."""
        self._timer: asyncio.TimerHandle | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop of the session."""

    def request(self, request: Request, read: Callable[[dict[str, Any]], ResultT]) -> Coroutine[Any, Any, ResultT]:
        """As `BlockingSession.request`. A step belongs to the session that is open now, any other request to the one
        that is open when it is awaited."""
        return self._request(self._session if request.kind == "step" else None, request, read)

    async def _request(
        self, session: ClientSession | None, request: Request, read: Callable[[dict[str, Any]], ResultT]
    ) -> ResultT:
        self._leave_other_loop()
        if session is None:
            session = await self._usable(may_replace=request.kind == "reset")
        async with self._in_flight:
            pending = session.begin(request)
            pending.waiter = asyncio.get_running_loop().create_future()
            if pending.deadline < self._next_check:
                self._check_at(session, pending.deadline)
            try:
                if self._reconnecting is None:  # else the new connection sends it
                    assert self._connection is not None
                    try:
                        self._connection.send(pending.frame)
                    except SessionLost as error:
                        self._on_lost(session, str(error))
                await pending.waiter
            finally:
                if pending.data is None:
                    session.abandon(pending)
        if pending.error is not None:
            raise pending.error
        assert pending.data is not None
        return read(pending.data)

    async def connect(self) -> None:
        """Open the session unless it is open."""
        self._leave_other_loop()
        await self._usable(may_replace=False)

    async def _usable(self, *, may_replace: bool) -> ClientSession:
        """The open session. Requests that are awaited together as the very first ones open one session between them.

        may_replace: open a new one in place of one that is lost.
        """
        before = self._session
        if before is None or (may_replace and before.lost is not None):
            async with self._opening:
                if self._session is before:
                    if before is not None:
                        await self._end()
                        self._attach_to = None
                    self._session, self._connection = await self._with_server(
                        self._new_session, may_replace=may_replace
                    )
        assert self._session is not None
        return self._session

    async def _new_session(self) -> tuple[ClientSession, AsyncConnection]:
        """Open a session. A connection that breaks before the server has named it has lost nothing: try another."""
        address = self._endpoint.address
        session = ClientSession(self._attach_to, address.message_timeout_s)
        self._forget_deadlines()
        self._in_flight = asyncio.Semaphore(MAX_IN_FLIGHT)
        self._loop = asyncio.get_running_loop()
        gives_up_at = time.monotonic() + address.connect_timeout_s
        while True:
            try:
                timeout_s = address.message_timeout_s if self._attach_to is None else address.connect_timeout_s
                return session, await self._attach(session, timeout_s)
            except SessionGone:
                raise
            except SessionLost:
                if time.monotonic() > gives_up_at:
                    raise
                await asyncio.sleep(FIRST_PAUSE_S)

    async def _attach(self, session: ClientSession, timeout_s: float) -> AsyncConnection:
        """Connect and wait for the server's hello."""
        hello = session.expect_hello(timeout_s)
        hello.waiter = asyncio.get_running_loop().create_future()
        connection = AsyncConnection(self._endpoint.address, session, partial(self._on_lost, session))
        await connection.open()
        if not session.is_extended:
            return connection
        try:
            if hello.deadline < self._next_check:
                self._check_at(session, hello.deadline)
            await hello.waiter
            if hello.error is not None:
                raise hello.error
        except asyncio.CancelledError:
            connection.cancel()
            raise
        except OpenEnvError as error:
            await connection.close()
            raise session.hello_error(error) from error
        return connection

    def _on_lost(self, session: ClientSession, reason: str) -> None:
        """The connection is broken: attach to the session again if requests are under way."""
        session.connection_lost(reason)
        if session is self._session and session.can_reconnect and self._reconnecting is None:
            if self._connection is not None:
                self._connection.abort()  # what it still reports is no news of the next connection
            task = self._reconnect(session, SessionLost(reason))
            self._reconnecting = asyncio.get_running_loop().create_task(task)

    async def _reconnect(self, session: ClientSession, cause: SessionLost) -> None:
        plan = session.reconnection(cause)
        try:
            while True:
                await asyncio.sleep(plan.pause_s)
                try:
                    connection = await self._attach(session, self._endpoint.address.connect_timeout_s)
                    self._connection = connection
                    for frame in session.frames_to_repeat():
                        connection.send(frame)
                except (SessionGone, Unauthorized) as gone:
                    session.end(gone)
                    return
                except OSError as still:
                    if not plan.allows_retry(still):
                        return
                else:
                    return
        finally:
            if self._reconnecting is asyncio.current_task():
                self._reconnecting = None

    def _check_at(self, session: ClientSession, deadline: float) -> None:
        """Check deadlines then. Nearly all requests are done long before, and need no timer of their own."""
        if self._timer is not None:
            self._timer.cancel()
        self._next_check = deadline
        loop = asyncio.get_running_loop()
        self._timer = loop.call_later(deadline - time.monotonic(), self._check_deadlines, session)

    def _forget_deadlines(self) -> None:
        """Stop the timer, which checks the deadlines of one session."""
        if self._timer is not None:
            self._timer.cancel()
        self._next_check, self._timer = math.inf, None

    def _check_deadlines(self, session: ClientSession) -> None:
        now = max(time.monotonic(), self._next_check)  # a timer may be a little early
        self._next_check, self._timer = math.inf, None
        next_deadline = session.expire(now)
        if next_deadline < math.inf:
            self._check_at(session, next_deadline)

    def leave_to_parent(self) -> None:
        """Called in a forked child. The connection is the parent's event loop's, which nothing here may touch: the two
        processes share what the loop waits on."""
        super().leave_to_parent()
        self._leave(FORKED)

    def _leave(self, reason: str) -> None:
        """The session is lost, and what its event loop runs is not touched."""
        if self._session is not None:
            self._session.lost = self._session.lost or SessionLost(reason)
        self._connection = self._reconnecting = self._timer = self._loop = None
        self._next_check = math.inf

    def _leave_other_loop(self) -> None:
        """The session of an event loop that has ended is lost. Raises OpenEnvError where that loop still runs."""
        if self._loop is None or self._loop is asyncio.get_running_loop():
            return
        if self._loop.is_running():
            raise OpenEnvError("this client is used in the event loop of another thread: make a client for each loop")
        self._leave(_OTHER_LOOP)
        self._opening = asyncio.Lock()

    async def _end(self) -> None:
        """End the session. The server's place is free when this returns, unless it takes long."""
        self._leave_other_loop()
        session, connection = self._session, self._connection
        self._session = self._connection = None
        self._forget_deadlines()
        if self._reconnecting is not None:
            self._reconnecting.cancel()
            self._reconnecting = None
        if session is None or connection is None:
            return
        was_lost = session.lost is not None
        session.end(SessionLost("the session was closed: reset() starts a new episode in a new one"))
        if not was_lost:
            await connection.end_session()
        await connection.close()
