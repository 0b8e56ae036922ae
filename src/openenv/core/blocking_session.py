"""A client's session on a blocking socket."""

import threading
import time
from typing import Any, Protocol

from openenv.core.connection import Address, BlockingConnection
from openenv.core.errors import AnswerTimeout, OpenEnvError, ServerUnreachable, SessionGone, SessionLost
from openenv.core.ping_answerer import IdleClient, PingAnswerer
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


class BlockingSession(IdleClient):
    """A session on a blocking socket. Safe to use from any thread; requests of several threads wait for one another."""

    def __init__(self, address: Address, session_id: str | None = None) -> None:
        """Open a session, or attach to the one of that id. Raises ServerUnreachable."""
        self.is_lost = False
        self.session_id = session_id
        self._address = address
        self._lock = threading.Lock()
        self._ids = request_ids()
        self._unanswered = 0  # published dialect: requests whose answers nobody waits for any more
        self._grace_s = 0.0
        self._extended = False
        self.about: dict[str, Any] = {}
        """What the server said of the session beside its id."""
        self._open(time.monotonic() + address.connect_timeout_s)
        if not self._extended:
            _PING_ANSWERER.add(self)

    def _open(self, deadline: float) -> None:
        """Connect. A connection that breaks before the server has named the session has lost nothing: try another."""
        while True:
            self._connection = BlockingConnection(self._address, self.session_id)
            self._extended = self._connection.subprotocol in EXTENDED
            if not self._extended:
                return
            try:
                self._welcome(time.monotonic() + self._address.welcome_s(self.session_id))
            except SessionGone:
                raise
            except AnswerTimeout as error:
                raise not_welcomed(self._address, self.session_id) from error
            except SessionLost:
                if time.monotonic() > deadline:
                    raise
                time.sleep(FIRST_PAUSE_S)
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
        return self._answer_to(request_id, request.frame(request_id), request.kind, deadline, is_sent=False)

    def _answer_to(self, request_id: str, frame: bytes, kind: str, deadline: float, *, is_sent: bool) -> dict[str, Any]:
        """The data of a request's answer; sends the request first, and again after each broken connection."""
        pause_s = 0.0
        while True:
            try:
                if not is_sent:
                    self._connection.send(frame)
                    is_sent = True
                message = read_message(self._connection.receive(deadline))
            except SessionLost as error:
                if time.monotonic() + pause_s > deadline:
                    raise AnswerTimeout(f"no answer in time: {error}") from error
                time.sleep(pause_s)
                pause_s = FIRST_PAUSE_S
                self._come_back(deadline, error)
                is_sent = False
                continue
            if message.get("id") == request_id or (message.get("id") is None and message.get("type") == "error"):
                return answer_data(message, kind)

    def _ask_published(self, request: Request, deadline: float) -> dict[str, Any]:
        if self._connection.is_open:
            self._connection.send(request.frame(None))
            self._unanswered += 1
        while True:
            message = read_message(self._connection.receive(deadline))
            self._unanswered = max(0, self._unanswered - 1)
            if self._unanswered == 0:
                return answer_data(message, request.kind)

    def _come_back(self, deadline: float, error: SessionLost) -> None:
        """Attach to the same session again. Raises SessionLost when that is impossible, AnswerTimeout at `deadline`."""
        given_up = time.monotonic() + self._grace_s
        pause_s = FIRST_PAUSE_S
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
                pause_s = min(2 * pause_s, LONGEST_PAUSE_S)

    def _welcome(self, deadline: float) -> None:
        """Read the server's first frame. Raises SessionLost when our session is unknown to it."""
        try:
            frame = self._connection.receive(deadline)
            wait_s = queue_wait_s(frame)
            if wait_s is not None:
                frame = self._connection.receive(deadline + wait_s)
            welcome = Welcome(frame)
        except OpenEnvError as error:
            self._connection.close()
            if self.session_id is None or isinstance(error, SessionLost | AnswerTimeout):
                raise
            raise gone(error) from error
        self.session_id, self._grace_s = welcome.session_id, welcome.grace_s
        self.about = self.about or welcome.about

    def close(self) -> None:
        """End the session and close the socket. The server's place is free when this returns, unless it takes long."""
        with self._lock:
            _PING_ANSWERER.discard(self)
            if not self.is_lost:
                self._connection.say_last(GOODBYE, time.monotonic() + GOODBYE_S)
            self.is_lost = True
            self._connection.close()

    def answer_pings(self) -> None:
        """Answer the server's pings unless a request is under way, which answers them anyway."""
        if self._lock.acquire(blocking=False):
            try:
                self._connection.answer_pings()
            finally:
                self._lock.release()
