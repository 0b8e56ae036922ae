"""Time limits for many futures with one timer: nearly all are done long before, and then cost no timer of their own."""

import asyncio
import math
import time
from typing import Any

from openenv.core.errors import AnswerTimeout


class Deadlines:
    """Gives futures that are late the exception AnswerTimeout. For one event loop."""

    def __init__(self) -> None:
        self._due: dict[asyncio.Future[Any], float] = {}  # monotonic seconds
        self._next_look = math.inf
        self._timer: asyncio.TimerHandle | None = None

    def add(self, future: "asyncio.Future[Any]", timeout_s: float) -> None:
        """From now on it has that long."""
        due = self._due[future] = time.monotonic() + timeout_s
        if due < self._next_look:
            self._look_at(due, future.get_loop())

    def discard(self, future: "asyncio.Future[Any]") -> None:
        """It has a deadline no longer, if it had one."""
        self._due.pop(future, None)

    def close(self) -> None:
        """Forget them all."""
        self._due.clear()
        self._next_look = math.inf
        if self._timer is not None:
            self._timer.cancel()

    def _look_at(self, due: float, loop: asyncio.AbstractEventLoop) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._next_look = due
        self._timer = loop.call_later(due - time.monotonic(), self._look, loop)

    def _look(self, loop: asyncio.AbstractEventLoop) -> None:
        now = max(time.monotonic(), self._next_look)  # a timer may be a hair early
        for future, due in self._due.items():
            if due <= now and not future.done():
                future.set_exception(
                    AnswerTimeout("no answer in time; the session lives and its late answer will be dropped")
                )
        self._next_look, self._timer = math.inf, None
        later = [due for due in self._due.values() if due > now]
        if later:
            self._look_at(min(later), loop)
