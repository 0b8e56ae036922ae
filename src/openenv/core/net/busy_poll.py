"""Busy polling: after a send, poll the socket for up to 500 us before blocking.

To block and be woken costs both ends of a connection more than most steps take, above all on virtual machines. A
blocking client polls its own socket. An event loop keeps itself awake, and so polls all of its sockets in each turn.

Between two polls a spin yields its processor to any other thread that is ready, such as that of the environment.

A spin that receives nothing wastes processor time, so the next ones are skipped: 1, up to 3, 7 and at last 255 of
them. A message that arrives later than 200 us came from an end that slept, or that is slow. Late messages do not pay
either, but the other end may be about to spin too. So 16 more late ones than prompt ones are allowed before skipping.

A spin that lasts much longer than it may was interrupted: other processes want the processors. A process that spins is
then made to wait for milliseconds, one that sleeps is not. So the next 255 spins are skipped, and up to 16,383 while
that goes on.

`OPENENV_BUSY_POLL=0` turns busy polling off for a process, `LoopSpinner.disable` for an event loop.
"""

import asyncio
import math
import os
import random
import socket
import ssl
import time
import weakref

SPIN_S = 5e-4
"""The longest spin: the time of a small step, and of waking up the other end."""
PROMPT_S = 2e-4
"""A message that takes longer is late."""
MAX_LATE = 16
"""Late messages, less prompt ones, before the next late one counts as a miss."""
MAX_SKIPPED = 255
INTERRUPTED_S = 2e-3
"""A spin that lasts as long was interrupted by another process."""
MAX_SKIPPED_INTERRUPTED = (1 << 14) - 1
NUM_UNINTERRUPTED = 1 << 12
"""So many prompt messages in a row show that the processors are free again."""
_RANDOM = random.Random()


def is_enabled() -> bool:
    """Whether the environment variable `OPENENV_BUSY_POLL` leaves busy polling on."""
    return os.environ.get("OPENENV_BUSY_POLL", "1") != "0"


class SpinBackoff:
    """Decides which spins are worth their processor time."""

    __slots__ = ("_interrupted_last", "_num_late", "_num_prompt", "_skipped_last", "num_to_skip")

    def __init__(self, *, is_enabled: bool) -> None:
        self.num_to_skip: float = 0 if is_enabled else math.inf
        """Count a spin that is skipped by subtracting 1."""
        self._skipped_last = 0
        """The most spins that were skipped after the last miss."""
        self._interrupted_last = 0
        """The most spins that were skipped after the last interruption."""
        self._num_late = 0
        self._num_prompt = 0
        """Prompt messages since the last interruption."""

    def hit(self, after_s: float) -> None:
        """A spin has received something after that long."""
        if after_s > PROMPT_S:
            self._num_late += 1
            if after_s > INTERRUPTED_S:
                self._interrupted()
            elif self._num_late > MAX_LATE:
                self._num_late = 0
                self.miss(after_s)
            return
        self._num_prompt += 1
        if self._num_late:
            self._num_late -= 1
        else:
            self._skipped_last = 0

    def miss(self, after_s: float) -> None:
        """A spin has received nothing, after that long."""
        if after_s > INTERRUPTED_S:
            self._interrupted()
        else:
            self._skipped_last = min(2 * self._skipped_last + 1, MAX_SKIPPED)
            self._skip(self._skipped_last)

    def _interrupted(self) -> None:
        if self._num_prompt > NUM_UNINTERRUPTED:
            self._interrupted_last = 0
        self._num_prompt = 0
        self._interrupted_last = min(max(2 * self._interrupted_last + 1, MAX_SKIPPED), MAX_SKIPPED_INTERRUPTED)
        self._skip(self._interrupted_last)

    def _skip(self, most: int) -> None:
        # A random number: two ends that skip in lockstep would never spin at the same time.
        self.num_to_skip = _RANDOM.randint((most + 1) // 2, most)


class SocketSpinner:
    """Polls one blocking socket. TLS sockets are not polled."""

    def __init__(self, connection: socket.socket) -> None:
        self._socket = connection
        self._backoff = SpinBackoff(is_enabled=is_enabled() and not isinstance(connection, ssl.SSLSocket))

    def recv(self, max_bytes: int) -> bytes:
        """What arrives within a spin; empty when nothing does, or the other end has closed the connection."""
        if self._backoff.num_to_skip:
            self._backoff.num_to_skip -= 1
            return b""
        receive = self._socket.recv
        started = now = time.perf_counter()
        while now < started + SPIN_S:
            try:
                data = receive(max_bytes, socket.MSG_DONTWAIT)
            except BlockingIOError:
                os.sched_yield()
                now = time.perf_counter()
                continue
            self._backoff.hit(time.perf_counter() - started)
            return data
        self._backoff.miss(now - started)
        return b""


class LoopSpinner:
    """Keeps an event loop awake: with a callback due in each turn it polls its sockets without blocking.

    Other callbacks and tasks of the loop run as usual.
    """

    def __init__(self) -> None:
        self._backoff = SpinBackoff(is_enabled=is_enabled())
        self._is_scheduled = False
        self._deadline = 0.0
        """When the spin ends; 0: the loop does not spin."""

    @staticmethod
    def of(loop: asyncio.AbstractEventLoop) -> "LoopSpinner":
        """The spinner of a loop, which all its connections share."""
        spinner = _SPINNERS.get(loop)
        if spinner is None:
            spinner = _SPINNERS[loop] = LoopSpinner()
        return spinner

    def disable(self) -> None:
        """Never spin again."""
        self._backoff = SpinBackoff(is_enabled=False)

    def arm(self, loop: asyncio.AbstractEventLoop) -> None:
        """A message was sent: spin for what comes back."""
        if not self._deadline and self._backoff.num_to_skip:
            self._backoff.num_to_skip -= 1
            return
        self._deadline = time.perf_counter() + SPIN_S
        if not self._is_scheduled:
            self._is_scheduled = True
            loop.call_soon(self._spin, loop)

    def received(self) -> None:
        """Something has arrived: the spin, if there is one, is over."""
        if self._deadline:
            started, self._deadline = self._deadline - SPIN_S, 0.0
            self._backoff.hit(time.perf_counter() - started)

    def _spin(self, loop: asyncio.AbstractEventLoop) -> None:
        self._is_scheduled = False
        if not self._deadline:
            return
        now = time.perf_counter()
        if now < self._deadline:
            os.sched_yield()
            self._is_scheduled = True
            loop.call_soon(self._spin, loop)
        else:
            started, self._deadline = self._deadline - SPIN_S, 0.0
            self._backoff.miss(now - started)


_SPINNERS: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, LoopSpinner] = weakref.WeakKeyDictionary()
