"""Staying awake for a message that is about to come.

To fall asleep and be woken costs both ends of a connection more than most steps take. Whoever has said something
therefore looks for what comes next, a moment long, before it sleeps: a thread on its own socket, an event loop for all
of its connections. After a look in vain the next ones are left out, each time twice as many, so that a slow
environment, a model that thinks about its next move, or a machine with other things to do is not watched for nothing.
"""

import asyncio
import socket
import ssl
import time
import weakref

WATCH_S = 2e-4
MOST_LEFT_OUT = 255


class Looks:
    """Which looks are worth while."""

    __slots__ = ("_left_out", "_to_leave_out")

    def __init__(self) -> None:
        self._left_out = 0
        """Looks that the last one in vain has cost."""
        self._to_leave_out = 0

    def next_is_due(self) -> bool:
        """Whether to look this time. Counts what is left out."""
        if self._to_leave_out:
            self._to_leave_out -= 1
            return False
        return True

    def seen(self) -> None:
        """A look found something."""
        self._left_out = 0

    def in_vain(self) -> None:
        """A look found nothing."""
        self._left_out = self._to_leave_out = min(2 * self._left_out + 1, MOST_LEFT_OUT)


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
        until = time.perf_counter() + WATCH_S
        while time.perf_counter() < until:
            try:
                data = receive(most_bytes, socket.MSG_DONTWAIT)
            except BlockingIOError:
                continue
            self._looks.seen()
            return data
        self._looks.in_vain()
        return b""


class LoopWatch:
    """Keeps an event loop awake: with something to do in each of its turns it asks its sockets without waiting.
    Everything else in the loop has its turns as ever."""

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

    def expect(self, loop: asyncio.AbstractEventLoop) -> None:
        """Something was said, and what comes next may come at once."""
        if not self._until and not self._looks.next_is_due():
            return
        self._until = time.perf_counter() + WATCH_S
        if not self._is_awake:
            self._is_awake = True
            loop.call_soon(self._stay_awake, loop)

    def heard(self) -> None:
        """Something has come."""
        if self._until:
            self._until = 0.0
            self._looks.seen()

    def _stay_awake(self, loop: asyncio.AbstractEventLoop) -> None:
        if self._until and time.perf_counter() < self._until:
            loop.call_soon(self._stay_awake, loop)
            return
        self._is_awake = False
        if self._until:
            self._until = 0.0
            self._looks.in_vain()


_OF_LOOPS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopWatch] = weakref.WeakKeyDictionary()
