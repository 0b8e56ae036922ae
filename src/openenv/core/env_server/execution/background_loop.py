"""An event loop in a thread of its own, for asynchronous environments.

The thread is a daemon: environment code that never returns does not keep the server from exiting.
"""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")

_BLOCKED_AFTER_S = 0.25


class BackgroundLoop:
    """An event loop in a thread of its own, which starts with the first coroutine.

    It runs all the time, so that tasks of an environment go on between two verbs, and blocks no other code.
    """

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, coroutine: Coroutine[Any, Any, ResultT]) -> "Future[ResultT]":
        """Start a coroutine in the caller's context. Cancelling the future cancels it."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(
                target=_run_loop, args=(self._loop,), name="asynchronous environments", daemon=True
            ).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def abandon_if_blocked(self) -> None:
        """Continue in another loop and thread if code that does not await blocks this one."""
        loop = self._loop
        if loop is None:
            return
        turn = asyncio.run_coroutine_threadsafe(asyncio.sleep(0), loop)
        try:
            async with asyncio.timeout(_BLOCKED_AFTER_S):
                await asyncio.wrap_future(turn)
        except TimeoutError:
            if self._loop is loop:
                self._loop = None
            loop.call_soon_threadsafe(loop.stop)

    def stop(self) -> None:
        """Cancel all coroutines and end the thread, as soon as the running one yields."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)


def _run_loop(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()
