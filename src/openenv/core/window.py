"""At most so many at one time: what `asyncio.Semaphore` does, without a coroutine where there is room."""

import asyncio
from collections import deque


class Window:
    """Places for those who are inside; who finds none waits in line. Leave once for each time that you entered."""

    def __init__(self, num_places: int) -> None:
        self._num_free = num_places
        self._line: deque[asyncio.Future[None]] = deque()

    def enter(self) -> bool:
        """Take a place. False: none is free, `wait` for one."""
        if not self._num_free:
            return False
        self._num_free -= 1
        return True

    async def wait(self) -> None:
        """Take the next place that somebody leaves, after those who have waited longer."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._line.append(turn)
        try:
            await turn
        except asyncio.CancelledError:
            if not turn.cancelled():  # the place was handed on in the same moment
                self.leave()
            raise

    def leave(self) -> None:
        """Hand the place on to who waits longest, or give it back."""
        while self._line:
            turn = self._line.popleft()
            if not turn.done():
                turn.set_result(None)
                return
        self._num_free += 1
