"""The client's side of a session, without I/O.

The transports send what `begin` returns and pass on what they receive. In the extended dialect every request has an id.
After a broken connection the client attaches to its session again and repeats the requests that are under way, with
their old ids. The server returns recorded responses to what it has done already, so that nothing is done twice.
"""

import itertools
import logging
import math
import os
import time
from dataclasses import dataclass
from types import NoneType
from typing import Any

from openenv.core.errors import (
    AnswerTimeout,
    OpenEnvError,
    ServerUnreachable,
    SessionGone,
    SessionLost,
    error_from_wire,
)
from openenv.core.wire.arrays import read_frame
from openenv.core.wire.client_codec import Request, response_error, unreadable
from openenv.core.wire.constants import EXTENDED, RESPONSE_TYPE

log = logging.getLogger(__name__)

FIRST_PAUSE_S = 0.05
MAX_PAUSE_S = 1.0
"""Between two attempts to attach to a session again."""
CLOSE_TIMEOUT_S = 2.0
"""How long a client that ends its session waits until the server has closed the environment."""
_MAX_QUEUE_S = 86_400.0
"""The longest wait in a server's queue: a day."""
_HELLO = "session"
_DATA_TYPES, _ID_TYPES = frozenset({dict, NoneType}), frozenset({str, NoneType})
TIMED_OUT = "no answer in time; the session lives and its late answer will be dropped"
_LOGGED_UNTIL: dict[str, float] = {}
"""Monotonic time, by the reason for which sessions were cut, until which a cut for the same reason is not logged."""
FORKED = (
    "the session belongs to the process that this one was forked from: reset() starts a new episode in a session of "
    "its own"
)


@dataclass(slots=True, eq=False)
class Pending:
    """A request under way. It is done when it has data or an error."""

    id: str
    response_type: str
    frame: bytes
    deadline: float
    """Monotonic seconds."""
    data: dict[str, Any] | None = None
    error: OpenEnvError | None = None
    waiter: Any = None
    """The future of an asynchronous transport; its result is None whatever the outcome."""

    def fail(self, error: OpenEnvError) -> None:
        """End the request with an error."""
        self.error = error
        if self.waiter is not None and not self.waiter.done():
            self.waiter.set_result(None)


class ClientSession:
    """Matches responses to requests and knows what a broken connection means."""

    def __init__(self, session_id: str | None, message_timeout_s: float) -> None:
        """session_id: of the session to attach to; None: the server opens a new one."""
        self.session_id = session_id
        self.hello: dict[str, Any] = {}
        """What the server sent about the session when it was opened."""
        self.is_extended = False
        self.lost: OpenEnvError | None = None
        """Why the session can take no more requests."""
        self._grace_s = self._hello_timeout_s = self._hello_at_most = 0.0
        self._message_timeout_s = message_timeout_s
        self._longest_s = 0.0
        """How long the server allows a verb, where its environment declares that."""
        self._is_repeating = False
        """Whether nothing was received since the last attempt to attach again."""
        self._client_id = os.urandom(4).hex()
        """Keeps request ids apart from those of other clients of the same session."""
        self._numbers = itertools.count(1)
        self._in_flight: dict[str, Pending] = {}
        """By id, oldest first. In the published dialect also requests that timed out, whose responses still come."""
        self._hello: Pending | None = None

    def expect_hello(self, timeout_s: float) -> Pending:
        """Call it before each connection. What it returns is done when the server has named the session."""
        self._hello_timeout_s = timeout_s
        hello = self._hello = Pending("", _HELLO, b"", time.monotonic() + timeout_s)
        self._hello_at_most = hello.deadline + _MAX_QUEUE_S
        return hello

    def connected(self, subprotocol: str | None) -> None:
        """The handshake is done; a server of the published dialect sends no hello."""
        self.is_extended = subprotocol in EXTENDED
        if not self.is_extended:
            self._hello = None

    def hello_error(self, error: OpenEnvError) -> OpenEnvError:
        """What a failed hello means for the caller."""
        if isinstance(error, AnswerTimeout):
            name = "message_timeout_s" if self.session_id is None else "connect_timeout_s"
            return AnswerTimeout(f"the server gave no session in {self._hello_timeout_s:g} s: raise {name}")
        if self.session_id is None or isinstance(error, OSError):
            return error
        return SessionGone(f"the session is gone ({error}): reset() starts a new episode in a new one")

    def begin(self, request: Request) -> Pending:
        """Record a request; send the frame of what this returns. Raises the error that has ended the session."""
        if self.lost is not None:
            raise self.lost.with_traceback(None)
        timeout_s = max(self._message_timeout_s, self._longest_s)
        if request.timeout_s is not None:
            timeout_s = request.response_timeout_s(timeout_s)
        request_id = f"{self._client_id}-{next(self._numbers)}"
        frame = request.encode(request_id if self.is_extended else None)
        response_type = RESPONSE_TYPE.get(request.kind, request.kind)
        pending = self._in_flight[request_id] = Pending(request_id, response_type, frame, time.monotonic() + timeout_s)
        return pending

    def receive(self, frame: bytes) -> None:
        """Take a message of the server: it ends the request that it answers."""
        try:
            message = read_frame(frame)
        except ValueError as error:
            message = unreadable(frame, str(error))
        if type(message) is not dict:
            message = unreadable(frame, f"it is {type(message).__name__}")
        if type(message.get("data")) not in _DATA_TYPES or type(message.get("id")) not in _ID_TYPES:
            message = unreadable(frame, "its data is an object, its id text")
        pending = self._in_flight.pop(message.get("id"), None) or self._request_without_id(message)
        if pending is None:
            return
        self._is_repeating &= pending.response_type == _HELLO
        if message.get("type") == pending.response_type:
            data = pending.data = message.get("data") or {}
            if "validity" in message and pending.response_type == "observation":
                data["validity"] = message["validity"]
        else:
            pending.error = response_error(message, pending.response_type)
        if pending.waiter is not None and not pending.waiter.done():
            pending.waiter.set_result(None)

    def _request_without_id(self, message: dict[str, Any]) -> Pending | None:
        """The request that a message without the id of one belongs to."""
        if self._hello is not None:
            return self._hello_in(message)
        if message.get("id") is not None:
            return None  # a late response: its request timed out
        is_error = message.get("type") == "error"
        if self._in_flight and (is_error or not self.is_extended):
            return self._in_flight.pop(next(iter(self._in_flight)))  # responses come in order
        if is_error and "is_unreadable" not in message:
            self.end(error_from_wire(message["data"]))  # the server closes the connection and sends the reason first
        return None

    def _hello_in(self, message: dict[str, Any]) -> Pending | None:
        """The hello, if the message ends it with a session or the server's error; any other fails it."""
        hello, data = self._hello, message.get("data") or {}
        assert hello is not None
        kind = message.get("type")
        try:
            if kind == "queued":
                wait_s = _seconds(data, "wait_s", _MAX_QUEUE_S)
                hello.deadline = min(hello.deadline + wait_s, self._hello_at_most)
                return None
            if kind == _HELLO:
                self.session_id, self._grace_s = _session_id(data), _seconds(data, "grace_s")
                self._longest_s = _seconds(data, "longest_s") if "longest_s" in data else 0.0
                self.hello = self.hello or data
            elif kind != "error" or "is_unreadable" in message:
                raise ValueError(data.get("message") or f"its type is {kind!r}")
            self._hello = None
            return hello
        except ValueError as error:
            self._hello = None
            hello.fail(ServerUnreachable(f"the server's first message opens no session: {error}"))
            return None

    def abandon(self, pending: Pending) -> None:
        """The caller no longer waits: a late response is dropped."""
        if self.is_extended:
            self._in_flight.pop(pending.id, None)

    def expire(self, now: float) -> float:
        """End the requests whose deadline has passed with AnswerTimeout. Returns the next deadline; inf: none."""
        next_deadline = math.inf
        waiting = [*self._in_flight.values(), *filter(None, [self._hello])]
        for pending in waiting:
            if pending.waiter is None or pending.waiter.done():
                continue
            if pending.deadline <= now:
                pending.fail(AnswerTimeout(TIMED_OUT))
            else:
                next_deadline = min(next_deadline, pending.deadline)
        return next_deadline

    def connection_lost(self, reason: str) -> None:
        """The connection broke. In the published dialect that is the end of the session."""
        if self._hello is not None:
            hello, self._hello = self._hello, None
            hello.fail(SessionLost(reason))
        elif not self.is_extended:
            self.end(SessionLost(f"{reason}: reset() starts a new episode"))

    @property
    def can_reconnect(self) -> bool:
        """Whether requests wait for a new connection to the same session."""
        return self.is_extended and self.lost is None and bool(self._in_flight)

    def reconnection(self, cause: OpenEnvError) -> "Reconnection":
        """A plan to attach to the session again. Raises `cause`, or what ended the session, when there is no way."""
        if self.lost is not None or not self.is_extended:
            raise self.lost or cause
        plan = Reconnection(self, self._grace_s, cause, FIRST_PAUSE_S if self._is_repeating else 0.0)
        self._is_repeating = True
        return plan

    def frames_to_repeat(self) -> list[bytes]:
        """The requests under way, oldest first."""
        return [pending.frame for pending in self._in_flight.values()]

    def end(self, error: OpenEnvError) -> None:
        """The session takes no more requests, and those under way fail."""
        self.lost = self.lost or error
        in_flight, self._in_flight = self._in_flight, {}
        for pending in in_flight.values():
            pending.fail(error)


def _seconds(data: dict[str, Any], name: str, at_most: float = math.inf) -> float:
    """A time in the server's first messages. Raises ValueError for anything but a number of seconds."""
    value: Any = data.get(name)
    if type(value) not in (int, float) or not 0 <= value <= at_most:
        raise ValueError(f"{name}={value!r}: expected 0 to {at_most:g} seconds")
    return float(value)


def _session_id(data: dict[str, Any]) -> str:
    session_id = data.get("session_id")
    if type(session_id) is not str or not session_id:
        raise ValueError(f"session_id={session_id!r}: expected a text")
    return session_id


class Reconnection:
    """Attempts to attach to a session again, within the grace period."""

    def __init__(self, session: ClientSession, grace_s: float, cause: OpenEnvError, pause_s: float) -> None:
        self.pause_s = pause_s
        """How long to wait before the next attempt."""
        self._session = session
        self._cause = cause
        self._grace_s = grace_s
        self._gives_up_at = time.monotonic() + grace_s

    def allows_retry(self, error: OSError) -> bool:
        """An attempt has failed: whether to wait `pause_s` and try again. Ends the session after the grace period.

        The first failure of all sessions that broke alike is logged, because the caller now waits.
        """
        if time.monotonic() > _LOGGED_UNTIL.get(str(self._cause), 0.0):
            _LOGGED_UNTIL[str(self._cause)] = self._gives_up_at
            log.warning("%s; trying for %g s to reach the server again: %s", self._cause, self._grace_s, error)
        self.pause_s = min(max(2 * self.pause_s, FIRST_PAUSE_S), MAX_PAUSE_S)
        if time.monotonic() + self.pause_s > self._gives_up_at:
            reason = f"{self._cause}; the server did not come back in {self._grace_s:g} s: {error}"
            self._session.end(SessionLost(reason))
            return False
        return True
