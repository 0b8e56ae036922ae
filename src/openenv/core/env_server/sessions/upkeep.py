"""What runs beside the sessions of a server: the reaper, the watchdog of inline code, and care for signal handlers."""

import asyncio
import contextlib
import logging
import signal
import threading
from collections.abc import Callable, Coroutine
from typing import Any

from openenv.core.env_server.execution.inline_timeout import start_watchdog, stop_watchdog

log = logging.getLogger(__name__)

_CHECK_INTERVAL_S = 0.25


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
        self._tasks = [reaper, asyncio.create_task(_keep_signal_handlers(), name="signal handlers")]
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


async def _keep_signal_handlers() -> None:
    """Restore the handlers of SIGINT and SIGTERM when environment code has replaced them. Runs as the server does.

    Without them the server would not learn that it is to stop. Outside the main thread there is nothing to keep.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    while True:
        await asyncio.sleep(_CHECK_INTERVAL_S)
        for number, handler in handlers.items():
            if signal.getsignal(number) != handler and handler is not None:
                signal.signal(number, handler)
                log.warning("environment code replaced the handler of %s: it is restored", number.name)
