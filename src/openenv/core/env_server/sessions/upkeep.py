"""What runs beside the sessions of a server: the reaper, the watchdog of inline code, and care for signal handlers."""

import asyncio
import contextlib
from collections.abc import Callable, Coroutine
from typing import Any

from openenv.core.env_server.execution.inline_timeout import start_watchdog, stop_watchdog
from openenv.core.env_server.execution.program_exit import keep_signal_handlers


class Upkeep:
    """Starts with the application, or with its first session where another application has the lifespan."""

    def __init__(self, reap_idle: Callable[[], Coroutine[Any, Any, None]]) -> None:
        self._reap_idle = reap_idle
        self._tasks: list[asyncio.Task[None]] = []
        self._is_watching = False
        """Whether inline code has a time limit because of this object."""

    def start(self, *, has_inline_code: bool) -> None:
        """Start in the running event loop, unless that was done. has_inline_code: whether environments run in this
        process."""
        if self._runs_here():
            return
        reaper = asyncio.create_task(self._reap_idle(), name="session reaper")
        self._tasks = [reaper, asyncio.create_task(keep_signal_handlers(), name="signal handlers")]
        self._is_watching = has_inline_code and start_watchdog()

    async def stop(self) -> None:
        """End what `start` has started."""
        if self._runs_here():
            for task in self._tasks:
                task.cancel()
                with contextlib.suppress(asyncio.CancelledError):
                    await task
        self._tasks = []
        if self._is_watching:
            self._is_watching = False
            stop_watchdog()

    def _runs_here(self) -> bool:
        """Whether the tasks belong to the running event loop: a test client has a loop for each request."""
        return bool(self._tasks) and self._tasks[0].get_loop() is asyncio.get_running_loop()
