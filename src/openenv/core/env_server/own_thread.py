"""A thread that belongs to one session: the author's code is made, run and closed in it."""

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
        threading.Thread(target=self._run, name=f"environment-{id(self):x}", daemon=True).start()

    def submit(self, call: Callable[[], ResultT]) -> "Future[ResultT]":
        """Run `call` after what was submitted before it, in the context of the caller."""
        future: Future[ResultT] = Future()
        context = contextvars.copy_context()
        self._calls.put((future, lambda: context.run(call)))
        return future

    def stop(self) -> None:
        """End the thread after what was submitted before."""
        self._calls.put(None)

    def _run(self) -> None:
        while (work := self._calls.get()) is not None:
            future, call = work
            if not future.set_running_or_notify_cancel():
                continue
            try:
                future.set_result(call())
            except BaseException as error:  # noqa: BLE001  border: whoever waits is told, whatever the author raised
                future.set_exception(error)
