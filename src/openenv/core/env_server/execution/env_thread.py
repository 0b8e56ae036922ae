"""Threads of environment code: one that runs calls in order, and one that runs an event loop.

Both are daemons: environment code that never returns does not keep the server from exiting.
"""

import asyncio
import contextvars
import threading
import weakref
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")

_Call = tuple[Future[Any], contextvars.Context, Callable[[], Any]]

_BLOCKED_AFTER_S = 0.25


class EnvThread:
    """Runs calls one after another. The thread ends when nothing refers to this object any more."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[_Call | None] = SimpleQueue()
        self._unfinished: set[Future[Any]] = set()
        weakref.finalize(self, self._calls.put, None)
        name = f"environment-{id(self):x}"
        threading.Thread(target=_run_calls, args=(self._calls,), name=name, daemon=True).start()

    @property
    def is_busy(self) -> bool:
        """Whether a call runs or is queued."""
        return bool(self._unfinished)

    def submit(self, call: Callable[[], ResultT]) -> "Future[ResultT]":
        """Run `call` after the calls submitted before it, in the caller's context."""
        future: Future[ResultT] = Future()
        self._unfinished.add(future)
        future.add_done_callback(self._unfinished.discard)
        self._calls.put((future, contextvars.copy_context(), call))
        return future


def _run_calls(calls: "SimpleQueue[_Call | None]") -> None:
    while (work := calls.get()) is not None:
        future, context, call = work
        try:
            if future.set_running_or_notify_cancel():
                future.set_result(context.run(call))
        except BaseException as error:  # noqa: BLE001  border: the future carries whatever environment code raised
            future.set_exception(error)
        del work, future, context, call


class SharedEnvThread:
    """One thread for all environments of a server."""

    def __init__(self, *, is_replaceable: bool) -> None:
        """is_replaceable: whether new environments may get another thread when a call blocks this one for good. The
        environments of a server that serves one ready instance may not."""
        self.current = EnvThread()
        self.turn = asyncio.Lock()
        """Held during a call, so that its limit counts no seconds of another session's call."""
        self._is_replaceable = is_replaceable

    def replace(self, thread: EnvThread) -> None:
        """Give environments made from now on another thread, because a call in this one outlived its limit."""
        if self._is_replaceable and thread is self.current:
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
