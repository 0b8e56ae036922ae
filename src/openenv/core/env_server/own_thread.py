"""Threads in which an author's code is made, run and closed: one for each session, or one for all of them."""

import contextvars
import threading
from collections.abc import Callable
from concurrent.futures import Future
from queue import SimpleQueue
from typing import Any, TypeVar

ResultT = TypeVar("ResultT")


class OwnThread:
    """Runs calls one after the other. A daemon: code that never returns does not keep the server from ending."""

    def __init__(self) -> None:
        self._calls: SimpleQueue[tuple[Future[Any], Callable[[], Any]] | None] = SimpleQueue()
        self._num_unfinished = 0
        self._lock = threading.Lock()
        threading.Thread(target=self._run, name=f"environment-{id(self):x}", daemon=True).start()

    @property
    def is_busy(self) -> bool:
        """Whether a call runs, or waits for one that does."""
        return self._num_unfinished > 0

    def submit(self, call: Callable[[], ResultT]) -> "Future[ResultT]":
        """Run `call` after what was submitted before it, in the context of the caller."""
        future: Future[ResultT] = Future()
        context = contextvars.copy_context()
        self._count(1)
        self._calls.put((future, lambda: context.run(call)))
        return future

    def stop(self) -> None:
        """End the thread after what was submitted before."""
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
            except BaseException as error:  # noqa: BLE001  border: whoever waits is told, whatever the author raised
                future.set_exception(error)
            finally:
                self._count(-1)


class SharedThread:
    """One thread for all environments of a server."""

    def __init__(self, *, is_replaceable: bool) -> None:
        """is_replaceable: whether the environments may go on in another thread when a call holds this one up for good;
        the server's one ready instance may not."""
        self.current = OwnThread()
        self.is_replaceable = is_replaceable

    def lose(self, thread: OwnThread) -> None:
        """A call in that thread has outlived its limit: whoever is made from now on gets another."""
        if self.is_replaceable and thread is self.current:
            thread.stop()
            self.current = OwnThread()
