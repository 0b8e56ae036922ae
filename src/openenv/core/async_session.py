"""A client's session in an event loop."""

import asyncio
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from openenv.core.async_connection import AsyncConnection
from openenv.core.connection import Address
from openenv.core.deadlines import Deadlines
from openenv.core.errors import AnswerTimeout, OpenEnvError, SessionGone, SessionLost, Unauthorized
from openenv.core.protocol import EXTENDED
from openenv.core.requests import Request, answer_data, read_message
from openenv.core.session_handshake import (
    FIRST_PAUSE_S,
    GOODBYE,
    GOODBYE_S,
    LONGEST_PAUSE_S,
    Welcome,
    gone,
    not_welcomed,
    queue_wait_s,
    request_ids,
)
from openenv.core.window import Window

ResultT = TypeVar("ResultT")

_MOST_UNDER_WAY = 16  # of one session: the server remembers at least as many answers


class AsyncRequests(Protocol):
    """What an asynchronous client needs of a session."""

    session_id: str | None

    @property
    def is_lost(self) -> bool:
        """Whether the session is gone for good."""
        ...

    async def ask(self, request: Request, timeout_s: float, read: Callable[[dict[str, Any]], ResultT]) -> ResultT:
        """Send a request, return what `read` makes of its answer's data. Raises what an error answer stands for."""
        ...

    async def close(self) -> None:
        """End the session."""
        ...


class AsyncSession:
    """A session in an event loop. Any number of requests may be under way; each gets its own answer."""

    def __init__(self, address: Address, session_id: str | None) -> None:
        self.is_lost = False
        self.session_id = session_id
        self._address = address
        self._ids = request_ids()
        self._extended = False
        self.about: dict[str, Any] = {}
        """What the server said of the session beside its id."""
        self._grace_s = 0.0
        self._connection: AsyncConnection | None = None
        self._open: dict[str, tuple[bytes, asyncio.Future[dict[str, Any]]]] = {}
        """Extended dialect: the frame and the waiter of each request under way, by id, oldest first."""
        self._in_order: deque[asyncio.Future[dict[str, Any]]] = deque()
        """Published dialect: the waiters, oldest first."""
        self._farewell: dict[str, Any] | None = None
        self._welcomed: asyncio.Future[Welcome] | None = None
        self._coming_back: asyncio.Task[None] | None = None
        self._is_back_in_vain = False
        """Whether nothing was answered since the connection was made again."""
        self._window = Window(_MOST_UNDER_WAY)
        self._deadlines = Deadlines()

    @classmethod
    async def open(cls, address: Address, session_id: str | None = None) -> "AsyncSession":
        """Open a session, or attach to the one of that id. Raises ServerUnreachable, or SessionGone for the latter."""
        session = cls(address, session_id)
        given_up = time.monotonic() + address.connect_timeout_s
        while True:
            try:
                await session._connect()
            except SessionGone:
                raise
            except SessionLost:  # before the server has named the session nothing is lost: try another connection
                if time.monotonic() > given_up:
                    raise
                await asyncio.sleep(FIRST_PAUSE_S)
            else:
                return session

    async def ask(self, request: Request, timeout_s: float, read: Callable[[dict[str, Any]], ResultT]) -> ResultT:
        """Send a request, return what `read` makes of its answer's data. Raises AnswerTimeout, SessionLost, or what an
        error stands for."""
        if not self._window.enter():
            await self._window.wait()
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        request_id = next(self._ids) if self._extended else None
        try:
            self._send(request_id, request.frame(request_id), answer)
            if not answer.done():
                self._deadlines.add(answer, timeout_s)
            return read(answer_data(await answer, request.kind))
        except SessionLost:
            self.is_lost = True
            raise
        finally:
            self._deadlines.discard(answer)
            if request_id is not None:
                self._open.pop(request_id, None)
            self._window.leave()

    def _send(self, request_id: str | None, frame: bytes, answer: "asyncio.Future[dict[str, Any]]") -> None:
        connection = self._connection
        if self._farewell is not None:
            answer.set_result(self._farewell)
            return
        if request_id is None:
            if connection is None:
                raise SessionLost("the session was closed: reset() starts a new episode in a new one")
            self._in_order.append(answer)  # which may come while the frame is sent
            try:
                connection.send(frame)
            except SessionLost:
                self._in_order.pop()
                raise
            return
        if self.is_lost:
            raise SessionLost("the session is gone: reset() starts a new episode in a new one")
        self._open[request_id] = (frame, answer)
        if connection is not None and connection.is_open:
            connection.send(frame)
        elif self._coming_back is None:
            self._coming_back = asyncio.get_running_loop().create_task(self._come_back())

    async def _connect(self) -> None:
        connection = await AsyncConnection.open(self._address, self.session_id)
        self._extended = connection.subprotocol in EXTENDED
        self._connection = connection
        if not self._extended:
            self._welcomed = None
            connection.listen(self._on_answer, self._on_lost)
            return
        welcomed = self._welcomed = asyncio.get_running_loop().create_future()
        try:
            self._deadlines.add(welcomed, self._address.welcome_s(self.session_id))
            connection.listen(self._on_first_message, self._on_lost)
            welcome = await welcomed
        except asyncio.CancelledError:
            connection.abort()
            raise
        except AnswerTimeout as error:
            await connection.close()
            raise not_welcomed(self._address, self.session_id) from error
        except OpenEnvError as error:
            await connection.close()
            if self.session_id is not None and not isinstance(error, OSError):
                raise gone(error) from error
            raise
        finally:
            self._deadlines.discard(welcomed)
        self.session_id, self._grace_s = welcome.session_id, welcome.grace_s
        self.about = self.about or welcome.about

    def _on_first_message(self, frame: bytes) -> None:
        assert self._welcomed is not None
        wait_s = queue_wait_s(frame)
        if wait_s is not None:
            self._deadlines.add(self._welcomed, wait_s + self._address.welcome_s(self.session_id))
            return
        assert self._connection is not None
        self._connection.on_message = self._on_answer
        if self._welcomed.done():
            return
        try:
            self._welcomed.set_result(Welcome(frame))
        except OpenEnvError as error:
            self._welcomed.set_exception(error)

    def _on_answer(self, frame: bytes) -> None:
        self._is_back_in_vain = False
        message = read_message(frame)
        known = self._open.get(message.get("id"))  # type: ignore[arg-type]  # no request is None
        waiter = self._waiter(message) if known is None else known[1]
        if waiter is None:
            is_farewell = message.get("type") == "error" and message.get("id") is None
            if is_farewell and "is_unreadable" not in message:
                self._farewell = message  # the server said why before it closed
                self.is_lost = True
        elif not waiter.done():  # else its request timed out or was cancelled: the answer is dropped
            waiter.set_result(message)

    def _waiter(self, message: dict[str, Any]) -> "asyncio.Future[dict[str, Any]] | None":
        """Who waits for an answer without the id of a request."""
        if not self._extended:
            return self._in_order.popleft() if self._in_order else None
        if self._open and message.get("id") is None and message.get("type") == "error":
            return next(iter(self._open.values()))[1]  # the server could not read it: answers come in order
        return None

    def _on_lost(self) -> None:
        assert self._connection is not None
        if self._welcomed is not None and not self._welcomed.done():
            self._welcomed.set_exception(SessionLost(self._connection.reason()))
        elif self._extended and self._open and self._coming_back is None:
            self._coming_back = asyncio.get_running_loop().create_task(self._come_back())
        for waiter in self._in_order:
            if not waiter.done():
                waiter.set_exception(SessionLost(f"{self._connection.reason()}: reset() starts a new episode"))
        self._in_order.clear()

    async def _come_back(self) -> None:
        """Attach to the same session again and repeat the open requests; tell the waiters when that is impossible."""
        given_up = time.monotonic() + self._grace_s
        pause_s = FIRST_PAUSE_S
        try:
            if self._is_back_in_vain:
                await asyncio.sleep(pause_s)
            self._is_back_in_vain = True
            while True:
                try:
                    await self._connect()
                    assert self._connection is not None
                    for frame, _ in list(self._open.values()):
                        self._connection.send(frame)
                    return
                except (SessionGone, Unauthorized) as error:
                    self._give_up(error)
                    return
                except OSError as error:
                    if time.monotonic() + pause_s > given_up:
                        self._give_up(SessionLost(f"the server did not come back in {self._grace_s:g} s: {error}"))
                        return
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)
        finally:
            self._coming_back = None

    def _give_up(self, error: OpenEnvError) -> None:
        self.is_lost = True
        for waiter in (*(waiter for _, waiter in self._open.values()), *self._in_order):
            if not waiter.done():
                waiter.set_exception(error)

    async def close(self) -> None:
        """End the session and close the socket. The server's place is free when this returns, unless it takes long."""
        was_lost = self.is_lost
        self._give_up(SessionLost("the session was closed while a request was under way"))
        self._deadlines.close()
        if self._coming_back is not None:
            self._coming_back.cancel()
        if self._connection is not None:
            if not was_lost:
                await self._connection.say_last(GOODBYE, GOODBYE_S)
            await self._connection.close()
            self._connection = None  # which refers to this session
