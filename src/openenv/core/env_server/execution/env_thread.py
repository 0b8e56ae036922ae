"""Threads of environment code: one that runs calls in order, and one that runs an event loop.

Both are daemons: environment code that never returns does not keep the server from exiting.
"""

import asyncio
import contextvars
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")

_BLOCKED_AFTER_S = 0.25


class EnvThread:
    """Runs calls one after another."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._num_unfinished = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name=f"environment-{id(self):x}", daemon=True).start()

    @property
    def is_busy(self) -> bool:
        """Whether a call runs or is queued."""
        return self._num_unfinished > 0

    def submit(self, call: Callable[[], ResultT]) -> "Future[ResultT]":
        """Run `call` after the calls submitted before it, in the caller's context."""
        future: Future[ResultT] = Future()
        context = contextvars.copy_context()
        self._count(1)
        self._calls.put((future, lambda: context.run(call)))
        return future

    def stop(self) -> None:
        """End the thread after the calls submitted before."""
        self._calls.put(None)

    def _count(self, change: int) -> None:
        with self._lock:
            self._num_unfinished += change

    def _run(self) -> None:
        while (work := self._calls.get()) is not None:
            future, call = work
            try:
                if future.set_running_or_notify_cancel():
                    future.set_result(call())
            except BaseException as error:  # noqa: BLE001  border: the future carries whatever environment code raised
                future.set_exception(error)
            finally:
                self._count(-1)


class SharedEnvThread:
    """One thread for all environments of a server."""

    def __init__(self, *, is_replaceable: bool) -> None:
        """is_replaceable: whether new environments may get another thread when a call blocks this one for good. The
        environments of a server that serves one ready instance may not."""
        self.current = EnvThread()
        self.is_replaceable = is_replaceable

    def replace(self, thread: EnvThread) -> None:
        """Give environments made from now on another thread, because a call in this one outlived its limit."""
        if self.is_replaceable and thread is self.current:
            thread.stop()
            self.current = EnvThread()


class BackgroundLoop:
    """An event loop in a thread of its own, for asynchronous environments.

    It runs all the time, so that tasks of an environment go on between two verbs, and blocks no other code. The thread
    starts with the first coroutine.
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
