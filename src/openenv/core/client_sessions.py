"""A client's end of a session: requests matched to answers, and the way back when the connection breaks.

In the extended dialect every request has an id. After a broken connection the client attaches to its session again and
repeats the open requests under their old ids: what was done is answered from the record, and nothing is done twice.
"""

import asyncio
import itertools
import secrets
import threading
import time
from collections import deque
from collections.abc import Iterator
from typing import Any, Protocol

import orjson

from openenv.core.async_connection import AsyncConnection
from openenv.core.connection import Address, BlockingConnection
from openenv.core.errors import (
    AnswerTimeout,
    OpenEnvError,
    ServerUnreachable,
    SessionGone,
    SessionLost,
    Unauthorized,
    error_from_wire,
)
from openenv.core.json_text import read_json
from openenv.core.ping_answerer import IdleClient, PingAnswerer
from openenv.core.protocol import SUBPROTOCOL
from openenv.core.requests import Request, answer_data

_FIRST_PAUSE_S = 0.05
_LONGEST_PAUSE_S = 1.0
_MOST_UNDER_WAY = 16  # of one session: the server remembers at least as many answers

_PING_ANSWERER = PingAnswerer()


class BlockingRequests(Protocol):
    """What a synchronous client needs of a session."""

    session_id: str | None

    @property
    def is_lost(self) -> bool:
        """Whether the session is gone for good."""
        ...

    def ask(self, request: Request, timeout_s: float) -> dict[str, Any]:
        """Send a request, return its answer's data. Raises what an error answer stands for."""
        ...

    def close(self) -> None:
        """End the session."""
        ...


class AsyncRequests(Protocol):
    """What an asynchronous client needs of a session."""

    session_id: str | None

    @property
    def is_lost(self) -> bool:
        """Whether the session is gone for good."""
        ...

    async def ask(self, request: Request, timeout_s: float) -> dict[str, Any]:
        """Send a request, return its answer's data. Raises what an error answer stands for."""
        ...

    async def close(self) -> None:
        """End the session."""
        ...


def _request_ids() -> Iterator[str]:
    """Ids that no other client of the same session uses."""
    client = secrets.token_hex(4)
    return (f"{client}-{number}" for number in itertools.count(1))


class _Welcome:
    """What the server said of the session when it was opened."""

    def __init__(self, frame: bytes) -> None:
        """Raises what an error frame stands for."""
        message = orjson.loads(frame)
        if message.get("type") == "error":
            raise error_from_wire(message["data"])
        self.session_id: str = message["data"]["session_id"]
        self.grace_s: float = message["data"]["grace_s"]


def _queue_wait_s(frame: bytes) -> float | None:
    """How long the server may keep its caller waiting for a session, when that is what a first frame says."""
    message = orjson.loads(frame)
    return float(message["data"]["wait_s"]) if message.get("type") == "queued" else None


class BlockingSession(IdleClient):
    """A session on a blocking socket. Safe to use from any thread; requests of several threads wait for one another."""

    def __init__(self, address: Address, session_id: str | None = None) -> None:
        """Open a session, or attach to the one of that id. Raises ServerUnreachable."""
        self.is_lost = False
        self.session_id = session_id
        self._address = address
        self._lock = threading.Lock()
        self._ids = _request_ids()
        self._unanswered = 0  # published dialect: requests whose answers nobody waits for any more
        self._grace_s = 0.0
        self._extended = False
        self._open(time.monotonic() + address.connect_timeout_s)
        if not self._extended:
            _PING_ANSWERER.add(self)

    def _open(self, deadline: float) -> None:
        """Connect. A connection that breaks before the server has named the session has lost nothing: try another."""
        while True:
            self._connection = BlockingConnection(self._address, self.session_id)
            self._extended = self._connection.subprotocol == SUBPROTOCOL
            if not self._extended:
                return
            try:
                self._welcome(time.monotonic() + self._address.welcome_s(self.session_id))
            except SessionGone:
                raise
            except AnswerTimeout as error:
                raise _not_welcomed(self._address, self.session_id) from error
            except SessionLost:
                if time.monotonic() > deadline:
                    raise
                time.sleep(_FIRST_PAUSE_S)
            else:
                return

    def ask(self, request: Request, timeout_s: float) -> dict[str, Any]:
        """Send a request, return its answer's data. Raises AnswerTimeout, SessionLost, or what an error stands for."""
        deadline = time.monotonic() + timeout_s
        with self._lock:
            try:
                if self._extended:
                    return self._ask_extended(request, deadline)
                return self._ask_published(request, deadline)
            except SessionLost:
                self.is_lost = True
                raise

    def _ask_extended(self, request: Request, deadline: float) -> dict[str, Any]:
        request_id = next(self._ids)
        frame = request.frame(request_id)
        is_sent = False
        while True:
            try:
                if not is_sent:
                    self._connection.send(frame)
                    is_sent = True
                message = read_json(self._connection.receive(deadline))
            except SessionLost as error:
                self._come_back(deadline, error)
                is_sent = False
                continue
            if message.get("id") == request_id or (message.get("id") is None and message.get("type") == "error"):
                return answer_data(message, request.kind)

    def _ask_published(self, request: Request, deadline: float) -> dict[str, Any]:
        if self._connection.is_open:
            self._connection.send(request.frame(None))
            self._unanswered += 1
        while True:
            message = read_json(self._connection.receive(deadline))
            self._unanswered = max(0, self._unanswered - 1)
            if self._unanswered == 0:
                return answer_data(message, request.kind)

    def _come_back(self, deadline: float, error: SessionLost) -> None:
        """Attach to the same session again. Raises SessionLost when that is impossible, AnswerTimeout at `deadline`."""
        given_up = time.monotonic() + self._grace_s
        pause_s = _FIRST_PAUSE_S
        while True:
            try:
                self._connection = BlockingConnection(self._address, self.session_id)
                self._welcome(deadline)
                return
            except SessionGone:
                raise
            except (ServerUnreachable, SessionLost) as still:
                if time.monotonic() + pause_s > given_up:
                    raise SessionLost(
                        f"{error}; the server did not come back in {self._grace_s:g} s: {still}"
                    ) from error
                if time.monotonic() + pause_s > deadline:
                    raise AnswerTimeout(f"no answer in time: {still}") from error
                time.sleep(pause_s)
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)

    def _welcome(self, deadline: float) -> None:
        """Read the server's first frame. Raises SessionLost when our session is unknown to it."""
        try:
            frame = self._connection.receive(deadline)
            wait_s = _queue_wait_s(frame)
            if wait_s is not None:
                frame = self._connection.receive(deadline + wait_s)
            welcome = _Welcome(frame)
        except OpenEnvError as error:
            self._connection.close()
            if self.session_id is None or isinstance(error, SessionLost | AnswerTimeout):
                raise
            raise _gone(error) from error
        self.session_id, self._grace_s = welcome.session_id, welcome.grace_s

    def close(self) -> None:
        """End the session and close the socket."""
        with self._lock:
            _PING_ANSWERER.discard(self)
            self.is_lost = True
            self._connection.close()

    def answer_pings(self) -> None:
        """Answer the server's pings unless a request is under way, which answers them anyway."""
        if self._lock.acquire(blocking=False):
            try:
                self._connection.answer_pings()
            finally:
                self._lock.release()


def _gone(error: OpenEnvError) -> SessionGone:
    return SessionGone(f"the session is gone ({error}): reset() starts a new episode in a new one")


def _not_welcomed(address: Address, session_id: str | None) -> AnswerTimeout:
    name = "message_timeout_s" if session_id is None else "connect_timeout_s"
    return AnswerTimeout(f"the server gave no session in {address.welcome_s(session_id):g} s: raise {name}")


class AsyncSession:
    """A session in an event loop. Any number of requests may be under way; each gets its own answer."""

    def __init__(self, address: Address, session_id: str | None) -> None:
        self.is_lost = False
        self.session_id = session_id
        self._address = address
        self._ids = _request_ids()
        self._extended = False
        self._grace_s = 0.0
        self._connection: AsyncConnection | None = None
        self._open: dict[str, tuple[bytes, asyncio.Future[dict[str, Any]]]] = {}
        """Extended dialect: the frame and the waiter of each request under way, by id, oldest first."""
        self._in_order: deque[asyncio.Future[dict[str, Any]]] = deque()
        """Published dialect: the waiters, oldest first."""
        self._farewell: dict[str, Any] | None = None
        self._welcomed: asyncio.Future[_Welcome] | None = None
        self._connect_limit = asyncio.timeout(None)
        self._coming_back: asyncio.Task[None] | None = None
        self._window = asyncio.Semaphore(_MOST_UNDER_WAY)

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
                await asyncio.sleep(_FIRST_PAUSE_S)
            else:
                return session

    async def ask(self, request: Request, timeout_s: float) -> dict[str, Any]:
        """Send a request, return its answer's data. Raises AnswerTimeout, SessionLost, or what an error stands for."""
        async with self._window:
            return await self._ask(request, timeout_s)

    async def _ask(self, request: Request, timeout_s: float) -> dict[str, Any]:
        request_id = next(self._ids) if self._extended else None
        frame = request.frame(request_id)
        answer: asyncio.Future[dict[str, Any]] = asyncio.get_running_loop().create_future()
        try:
            self._send(request_id, frame, answer)
            async with asyncio.timeout(timeout_s):
                return answer_data(await answer, request.kind)
        except AnswerTimeout:
            raise
        except SessionLost:
            self.is_lost = True
            raise
        except TimeoutError:
            raise AnswerTimeout("no answer in time; the session lives and its late answer will be dropped") from None
        finally:
            if request_id is not None:
                self._open.pop(request_id, None)

    def _send(self, request_id: str | None, frame: bytes, answer: "asyncio.Future[dict[str, Any]]") -> None:
        connection = self._connection
        if self._farewell is not None:
            answer.set_result(self._farewell)
            return
        if request_id is None:
            assert connection is not None
            connection.send(frame)
            self._in_order.append(answer)
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
        self._extended = connection.subprotocol == SUBPROTOCOL
        self._connection = connection
        if not self._extended:
            self._welcomed = None
            connection.listen(self._on_message, self._on_lost)
            return
        welcomed = self._welcomed = asyncio.get_running_loop().create_future()
        try:
            async with asyncio.timeout(self._address.welcome_s(self.session_id)) as self._connect_limit:
                connection.listen(self._on_message, self._on_lost)
                welcome = await welcomed
        except asyncio.CancelledError:
            connection.abort()
            raise
        except TimeoutError as error:
            await connection.close()
            raise _not_welcomed(self._address, self.session_id) from error
        except OpenEnvError as error:
            await connection.close()
            if self.session_id is not None and not isinstance(error, OSError):
                raise _gone(error) from error
            raise
        self.session_id, self._grace_s = welcome.session_id, welcome.grace_s

    def _on_message(self, frame: bytes) -> None:
        if self._welcomed is not None and not self._welcomed.done():
            wait_s = _queue_wait_s(frame)
            if wait_s is not None:
                loop = asyncio.get_running_loop()
                self._connect_limit.reschedule(loop.time() + wait_s + self._address.welcome_s(self.session_id))
                return
            try:
                self._welcomed.set_result(_Welcome(frame))
            except OpenEnvError as error:
                self._welcomed.set_exception(error)
            return
        message = read_json(frame)
        waiter = self._waiter(message)
        if waiter is None:
            if message.get("type") == "error" and message.get("id") is None:
                self._farewell = message  # the server said why before it closed
                self.is_lost = True
        elif not waiter.done():  # else its request timed out or was cancelled: the answer is dropped
            waiter.set_result(message)

    def _waiter(self, message: dict[str, Any]) -> "asyncio.Future[dict[str, Any]] | None":
        if self._extended:
            request_id = message.get("id")
            if request_id is None and message.get("type") == "error":
                request_id = next(iter(self._open), None)  # the server could not read it: answers come in order
            _, waiter = self._open.get(request_id or "", (b"", None))
            return waiter
        return self._in_order.popleft() if self._in_order else None

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
        pause_s = _FIRST_PAUSE_S
        try:
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
                pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)
        finally:
            self._coming_back = None

    def _give_up(self, error: OpenEnvError) -> None:
        self.is_lost = True
        for _, waiter in self._open.values():
            if not waiter.done():
                waiter.set_exception(error)

    async def close(self) -> None:
        """End the session and close the socket."""
        self._give_up(SessionLost("the session was closed while a request was under way"))
        if self._coming_back is not None:
            self._coming_back.cancel()
        if self._connection is not None:
            await self._connection.close()
