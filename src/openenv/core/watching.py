"""Staying awake for a message that is about to come.

To fall asleep and be woken costs both ends of a connection more than most steps take. Whoever has said something
therefore looks for what comes next, a moment long, before it sleeps: a thread on its own socket, an event loop for all
of its connections. After a look in vain the next ones are left out, each time twice as many, so that a slow
environment, a model that thinks about its next move, or a machine with other things to do is not watched for nothing.

Two ends that are both awake hear each other in microseconds. When one has slept, the other hears it only after it was
woken, which takes tens of microseconds on bare metal and hundreds on a virtual machine: a look lasts that long, too,
or two ends that fell asleep once would stay so for good. Where most looks take so long, they are as good as in vain.
"""

import asyncio
import logging
import os
import random
import select
import socket
import ssl
import time
import weakref
from collections.abc import Callable

log = logging.getLogger(__name__)

WATCH_S = 5e-4
"""How long a look lasts at most: a step, and the other end's waking up."""
SOON_S = 2e-4
"""What is seen later came from an end that slept, or is slow: no sign that looks pay."""
MOST_LATE = 16
"""So many more looks that saw something late than soon are allowed, for the other end to wake up meanwhile and look
too. The next one counts as one in vain."""
MOST_LEFT_OUT = 255
_RANDOM = random.Random()
_LISTEN_S = 2e-5
"""How long everything else in an event loop waits at most while a line is listened to in one of its turns."""
_AT_ONCE_S = 2.5e-4
"""How long it waits at most while a line is listened to before the loop has its turn."""
NO_TURN_S = 1e-3
"""How long an event loop whose client is answered so does at most without a turn."""
_MOST_BYTES = 1 << 16


class Looks:
    """Which looks are worth while."""

    __slots__ = ("_left_out", "_num_late", "_to_leave_out")

    def __init__(self) -> None:
        self._left_out = 0
        """Looks that the last one in vain has cost at most."""
        self._to_leave_out = 0
        self._num_late = 0
        """Looks that saw something late, less those that saw something soon."""

    def next_is_due(self) -> bool:
        """Whether to look this time. Counts what is left out."""
        if self._to_leave_out:
            self._to_leave_out -= 1
            return False
        return True

    def seen(self, after_s: float) -> None:
        """A look found something. after_s: how long it took."""
        if after_s > SOON_S:
            self._num_late += 1
            if self._num_late > MOST_LATE:
                self._num_late = 0
                self.in_vain()
        elif self._num_late:
            self._num_late -= 1
        else:
            self._left_out = 0

    def in_vain(self) -> None:
        """A look found nothing."""
        self._left_out = most = min(2 * self._left_out + 1, MOST_LEFT_OUT)
        # not as many each time: two ends in step with each other would never look at the same time
        self._to_leave_out = _RANDOM.randint((most + 1) // 2, most)


class SocketWatch:
    """Looks for what comes on a blocking socket."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._can_watch = not isinstance(connection, ssl.SSLSocket)
        self._looks = Looks()

    def seen(self, most_bytes: int) -> bytes:
        """What has come; empty when nothing has."""
        if not self._can_watch or not self._looks.next_is_due():
            return b""
        receive = self._socket.recv
        began = now = time.perf_counter()
        while now < began + WATCH_S:
            try:
                data = receive(most_bytes, socket.MSG_DONTWAIT)
            except BlockingIOError:
                now = time.perf_counter()
                continue
            self._looks.seen(now - began)
            return data
        self._looks.in_vain()
        return b""


class Line:
    """A connection's socket, read past its event loop: asyncio's takes longer to say what came than to read it."""

    def __init__(self, transport: asyncio.Transport, hear: Callable[[bytes], None]) -> None:
        """hear: the protocol's `data_received`."""
        self._transport = transport
        self._hear = hear
        self._fd: int = transport.get_extra_info("socket").fileno()
        self._poll = select.poll()
        self._poll.register(self._fd, select.POLLIN)
        self._bytes_alone = [(self._fd, select.POLLIN)]
        """What `poll` says where bytes have come and no end of the connection with them."""

    @classmethod
    def of(cls, transport: asyncio.BaseTransport, hear: Callable[[bytes], None]) -> "Line | None":
        """The line of a connection; None where its bytes are enciphered, or its loop reads as fast itself."""
        if not isinstance(transport, asyncio.Transport) or transport.get_extra_info("sslcontext") is not None:
            return None  # uvloop's transports do not inherit from asyncio's
        if transport.get_extra_info("socket") is None:
            return None  # one of a trunk
        return cls(transport, hear)

    def listen(self, until: float) -> bool:
        """Hand on the first that comes until then. Returns whether something has come: the end is left to the loop."""
        if not self._transport.is_reading():
            return False
        while not (come := self._poll.poll(0)):
            if time.perf_counter() > until:
                return False
        data = os.read(self._fd, _MOST_BYTES) if come == self._bytes_alone else b""
        if data:
            try:
                self._hear(data)
            except Exception:  # border: as the transport does with what its protocol raises
                log.exception("what came from the server could not be read")
                self._transport.abort()
        return True


class LoopWatch:
    """Keeps an event loop awake: with something to do in each of its turns it asks its sockets without waiting.
    Everything else in the loop has its turns as ever, but where one connection is alone each good millisecond."""

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> "LoopWatch":
        """The one of a loop, which its connections share."""
        watch = _OF_LOOPS.get(loop)
        if watch is None:
            watch = _OF_LOOPS[loop] = LoopWatch()
        return watch

    def __init__(self) -> None:
        self._looks = Looks()
        self._is_awake = False
        self._until = 0.0
        """When the look that is under way ends; 0: none is."""
        self._last_heard: weakref.ref[Line] | None = None  # which knows the loop, by which this watch is found
        self._is_alone = False
        """Whether the last two that were heard were the same."""
        self._line: weakref.ref[Line] | None = None
        """What is expected next comes here."""
        self._looks_at_once = Looks()
        self._turn_is_due = 0.0
        """Until when the loop may do without a turn."""

    def expect(self, loop: asyncio.AbstractEventLoop, line: Line | None = None) -> None:
        """Something was said, and what comes next may come at once: it may be heard before this returns. line: on
        which, where it is read past the loop."""
        if not self._until and not self._looks.next_is_due():
            return
        now = time.perf_counter()
        self._until = now + WATCH_S
        said = None if line is None else weakref.ref(line)  # there is but one of each
        self._line = said if self._is_alone and said is self._last_heard else None
        if self._is_awake:
            return
        if line is not None and self._line is not None and now < self._turn_is_due and self._hears_at_once(line, now):
            return
        if self._is_awake:  # by what was said to what was heard
            return
        self._is_awake = True
        loop.call_soon(self._stay_awake, loop)

    def _hears_at_once(self, line: Line, now: float) -> bool:
        """Whether what is expected came before the loop had its turn."""
        if not self._looks_at_once.next_is_due():
            return False
        if line.listen(now + _AT_ONCE_S):
            self._looks_at_once.seen(0.0)
        else:
            self._looks_at_once.in_vain()
        return not self._until

    def heard(self, line: Line | None = None) -> None:
        """Something has come."""
        heard = None if line is None else weakref.ref(line)
        self._is_alone = heard is self._last_heard
        self._last_heard = heard
        if self._until:
            began, self._until = self._until - WATCH_S, 0.0
            self._looks.seen(time.perf_counter() - began)

    def _stay_awake(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_awake = False
        now = time.perf_counter()
        self._turn_is_due = now + NO_TURN_S
        expected, self._line = self._line, None
        line = expected() if expected is not None and self._until else None
        if line is not None and not line.listen(now + _LISTEN_S):
            self._line = expected
        if self._is_awake or not self._until:
            return
        if now < self._until:
            self._is_awake = True
            loop.call_soon(self._stay_awake, loop)
        else:
            self._until = 0.0
            self._looks.in_vain()


_OF_LOOPS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopWatch] = weakref.WeakKeyDictionary()
