"""Limits the number of sessions of a process, with a bounded queue of callers that wait for one."""

import asyncio
import math
from collections import deque
from collections.abc import Callable

from openenv.core.env_server.exceptions import SessionCapacityError

OnQueued = Callable[[int], None]
"""Receives the position in the queue, from 1, of a caller that has to wait."""


class CapacityLimiter:
    """The slots of one process. Each `acquire` is paired with a `release`."""

    def __init__(
        self,
        num_slots: int,
        max_queue: int,
        queue_timeout_s: float,
        *,
        max_sessions: int | None = None,
        on_change: Callable[[], None] = lambda: None,
    ) -> None:
        """
        Args:
            num_slots: sessions of this process.
            max_queue, queue_timeout_s: as in ServerConfig.
            max_sessions: the limit of the whole server; None: `num_slots`.
            on_change: called when a slot is acquired or released, and when a caller joins or leaves the queue.
        """
        self.num_slots = num_slots
        self.num_acquired = 0
        self.num_requested = 0
        """Slots that were requested so far, refused ones included."""
        self._num_elsewhere = 0 if max_sessions is None else max_sessions - num_slots
        """Slots of the other processes of the server."""
        self._on_change = on_change
        self._max_queue = max_queue
        self._queue_timeout_s = queue_timeout_s
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def num_queued(self) -> int:
        """Callers in the queue."""
        return len(self._queue)

    def try_acquire(self) -> bool:
        """Take a slot if one is free and the queue is empty."""
        if self.num_acquired >= self.num_slots or self._queue:
            return False
        self.num_acquired += 1
        self.num_requested += 1
        self._on_change()
        return True

    async def acquire(self, on_queued: OnQueued | None = None) -> None:
        """Take a slot, first come first served. Calls `on_queued` if the caller has to wait.

        Raises SessionCapacityError if the queue is full, or the wait longer than its limit.
        """
        if self.try_acquire():
            return
        self.num_requested += 1
        if len(self._queue) >= self._max_queue:
            self._on_change()
            raise self.error()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        self._on_change()
        if on_queued is not None:
            on_queued(len(self._queue))
        try:
            async with asyncio.timeout(self._queue_timeout_s):
                await turn  # `_admit` has taken the slot for this caller
        except (TimeoutError, asyncio.CancelledError) as error:
            if turn.done() and not turn.cancelled():  # the slot came at the moment of giving up: pass it on
                self.release()
            if isinstance(error, asyncio.CancelledError):
                raise
            raise self.error() from None
        finally:
            if turn in self._queue:
                self._queue.remove(turn)
                self._on_change()

    async def queue_again(self, on_queued: OnQueued | None = None) -> None:
        """`acquire` for a caller whose slot is above the limit since `limit`: it gives that slot back and waits.

        Raises as `acquire` does; the caller then releases its slot as if it still had it.
        """
        self.release()
        self.num_requested -= 1  # it is the same request
        try:
            await self.acquire(on_queued)
        except BaseException:  # a cancellation, too
            self.num_acquired += 1
            raise

    def release(self) -> None:
        """Give a slot back, to the first caller in the queue if there is one."""
        self.num_acquired -= 1
        self._admit()

    def add_slots(self, number: int) -> None:
        """Take over slots of another process of the server."""
        self.num_slots += number
        self._num_elsewhere -= number
        self._admit()

    def limit(self, num_slots: int) -> None:
        """Have `num_slots` from now on. Slots that are taken above that stay taken until their release."""
        self.num_slots = num_slots

    @property
    def is_exceeded(self) -> bool:
        """Whether more slots are taken than there are, after `limit`."""
        return self.num_acquired > self.num_slots

    def return_slots(self, number: int) -> int:
        """Give up to `number` free slots to another process. Returns how many."""
        returned = max(0, min(number, self.num_slots - self.num_acquired))
        self.num_slots -= returned
        self._num_elsewhere += returned
        return returned

    def _admit(self) -> None:
        while self._queue and self.num_acquired < self.num_slots:
            turn = self._queue.popleft()
            if not turn.done():
                self.num_acquired += 1
                turn.set_result(None)
        self._on_change()

    def error(self) -> SessionCapacityError:
        """The error of a caller for which there is no slot."""
        retry_after_s = math.ceil(self._queue_timeout_s) if self._max_queue else None
        num_active, limit = self.num_acquired + self._num_elsewhere, self.num_slots + self._num_elsewhere
        return SessionCapacityError(num_active, limit, retry_after_s=retry_after_s)
