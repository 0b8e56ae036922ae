"""An event loop that always runs, in a thread of its own, so that asynchronous code of an author keeps its tasks alive
between two verbs and can block nobody but itself."""

import asyncio
import threading
from collections.abc import Coroutine
from concurrent.futures import Future
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")

_PATIENCE_S = 0.25


class LoopThread:
    """Runs coroutines. Its thread begins with the first; a daemon, so that code which never returns ends with the
    program."""

    def __init__(self) -> None:
        self._loop: asyncio.AbstractEventLoop | None = None

    def submit(self, coroutine: Coroutine[Any, Any, ResultT]) -> "Future[ResultT]":
        """Start a coroutine, in the context of the caller. Cancelling the future cancels it."""
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=_run, args=(self._loop,), name="asynchronous environments", daemon=True).start()
        return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    async def leave_when_stuck(self) -> None:
        """Go on in another loop and thread when this one is held up by code that does not await."""
        loop = self._loop
        if loop is None:
            return
        turn = asyncio.run_coroutine_threadsafe(_nothing(), loop)
        try:
            async with asyncio.timeout(_PATIENCE_S):
                await asyncio.wrap_future(turn)
        except TimeoutError:
            if self._loop is loop:
                self._loop = None
            loop.call_soon_threadsafe(loop.stop)

    def stop(self) -> None:
        """Cancel what runs and end the thread, as soon as what runs lets go."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)


async def _nothing() -> None:
    return


def _run(loop: asyncio.AbstractEventLoop) -> None:
    asyncio.set_event_loop(loop)
    loop.run_forever()
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    loop.run_until_complete(asyncio.gather(*tasks, return_exceptions=True))
    loop.close()
