"""Places for sessions: so many at one time, and a bounded queue, first come first served, of those who wait for one."""

import asyncio
import math
from collections import deque
from collections.abc import Callable

from openenv.core.env_server.exceptions import SessionCapacityError

Queued = Callable[[int], None]
"""Is told its position in the queue, from 1, by a caller who has to wait."""


class Places:
    """The places of one server. Whoever takes one gives it back with `free`."""

    def __init__(self, number: int, max_waiting: int, max_wait_s: float) -> None:
        """number: how many there are. The other two are ServerConfig's."""
        self.number = number
        self.num_taken = 0
        self._max_waiting = max_waiting
        self._max_wait_s = max_wait_s
        self._queue: deque[asyncio.Future[None]] = deque()

    @property
    def num_waiting(self) -> int:
        """Callers in the queue."""
        return len(self._queue)

    def takes_now(self) -> bool:
        """Take a place, if there is one that nobody waits for."""
        if self.num_taken >= self.number or self._queue:
            return False
        self.num_taken += 1
        return True

    async def take(self, queued: Queued | None = None) -> None:
        """Take a place; where there is none, `queued` is told and one is waited for.

        Raises SessionCapacityError when the queue is full or the wait too long.
        """
        if self.takes_now():
            return
        if len(self._queue) >= self._max_waiting:
            raise self._full()
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        if queued is not None:
            queued(len(self._queue))
        try:
            async with asyncio.timeout(self._max_wait_s):
                await turn  # whoever gives the turn has taken the place
        except (TimeoutError, asyncio.CancelledError) as error:
            if turn.done() and not turn.cancelled():  # admitted in the moment of giving up: the place goes to the next
                self.free()
            if isinstance(error, asyncio.CancelledError):
                raise
            raise self._full() from None
        finally:
            if turn in self._queue:
                self._queue.remove(turn)

    def free(self) -> None:
        """Give a place back: it goes to the first who waits."""
        self.num_taken -= 1
        while self._queue and self.num_taken < self.number:
            turn = self._queue.popleft()
            if not turn.done():
                self.num_taken += 1
                turn.set_result(None)

    def _full(self) -> SessionCapacityError:
        retry_after_s = math.ceil(self._max_wait_s) if self._max_waiting else None
        return SessionCapacityError(self.num_taken, self.number, retry_after_s=retry_after_s)
