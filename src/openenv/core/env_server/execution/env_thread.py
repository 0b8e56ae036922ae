"""Threads of environment code, which run calls in order, each with a time limit.

They are daemons: environment code that never returns does not keep the server from exiting.
"""

import asyncio
import contextlib
import contextvars
import logging
import threading
import time
import weakref
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import Any, TypeVar

from openenv.core.errors import TimeLimitExceeded

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

BLOCKED_AFTER_S = 0.1
"""A call that runs for longer holds up the calls of other environments that share its thread."""


class EnvThread:
    """Runs calls one after another, in the caller's context. The thread ends when nothing refers to this object."""

    def __init__(self, note: Callable[[float], None] = lambda _: None, *, is_shared: bool = False) -> None:
        """note: called with the seconds that each call took. is_shared: whether other environments use the thread, and
        move to another one when a call blocks it."""
        self.is_shared = is_shared
        self.is_abandoned = False
        """Whether a call has outlived its limit: no further verbs are to be submitted."""
        self._note = note
        self._worker = _Worker()
        self._unfinished: deque[_Call] = deque()
        """In the order in which the worker runs them."""
        self._timer: asyncio.TimerHandle | None = None

    @property
    def is_busy(self) -> bool:
        """Whether a call runs or is queued."""
        return bool(self._unfinished)

    def submit(
        self,
        name: str,
        timeout_s: float,
        run: Callable[[], ResultT],
        on_blocked: "Callable[[EnvThread], None]" = lambda _: None,
    ) -> "asyncio.Future[ResultT]":
        """Run a call after those submitted before it. The future raises TimeLimitExceeded up to 0.1 s late.

        A call whose future is cancelled before its turn does not run; one that runs goes on to its end. The time that
        it waits for its turn does not count. name: what the error calls it, such as `step`. on_blocked: called when the
        others leave a shared thread to this call, with the object that stands for the thread from then on.
        """
        loop = asyncio.get_running_loop()
        call = _Call(name, timeout_s, run, loop.create_future(), on_blocked, self)
        self._unfinished.append(call)
        self._worker.calls.put(call)
        if self._timer is None:
            self._timer = loop.call_later(min(timeout_s, BLOCKED_AFTER_S), self._watch)
        return call.future

    def split_off(self) -> "EnvThread":
        """Leave the thread to the call that runs. Later calls, those that are queued among them, run in a new one.

        Returns the object that stands for the old thread.
        """
        old = EnvThread.__new__(EnvThread)
        old.is_shared = old.is_abandoned = False
        old._note, old._worker, old._timer = self._note, self._worker, None
        queued = self._worker.take_queued()
        old._unfinished = deque(call for call in self._unfinished if call not in queued)
        self._worker, self._unfinished = _Worker(), deque(queued)
        for call in old._unfinished:
            call.thread = old
            call.on_blocked(old)
        for call in queued:
            self._worker.calls.put(call)
        if old._unfinished:
            old._timer = asyncio.get_running_loop().call_later(BLOCKED_AFTER_S, old._watch)
        return old

    def abandon(self) -> None:
        """Leave the thread to the call that runs: those that are queued fail with TimeLimitExceeded."""
        self.is_abandoned = True
        for call in self._worker.take_queued():
            self._unfinished.remove(call)
            if not call.future.done():
                call.future.set_exception(blocked_by_another())

    def _watch(self) -> None:
        """Fail a call that has outlived its limit, and move the calls that one holds up."""
        self._timer = None
        if not self._unfinished:
            return
        call = self._unfinished[0]
        ran_s = time.monotonic() - call.started if call.started and not call.took_s else 0.0
        if ran_s >= call.timeout_s and not call.future.done():
            call.fail_by_limit()
        elif ran_s >= BLOCKED_AFTER_S and self.is_shared and len(self._unfinished) > 1:
            log.warning("%s blocks a thread that other environments share: they move to another", call.name)
            self.split_off()
        if not all(call.future.done() for call in self._unfinished):
            due_s = call.timeout_s - ran_s if ran_s < call.timeout_s else BLOCKED_AFTER_S
            self._timer = asyncio.get_running_loop().call_later(min(due_s, BLOCKED_AFTER_S), self._watch)

    def deliver(self, call: "_Call", result: Any, error: BaseException | None) -> None:
        """Called in the event loop when a call has ended."""
        self._unfinished.remove(call)
        self._note(call.took_s)
        if not call.future.done():
            if error is None:
                call.future.set_result(result)
            else:
                call.future.set_exception(error)


class _Call:
    """A call of environment code, and the future of its result."""

    __slots__ = ("context", "future", "name", "on_blocked", "run", "started", "thread", "timeout_s", "took_s")

    def __init__(
        self,
        name: str,
        timeout_s: float,
        run: Callable[[], Any],
        future: "asyncio.Future[Any]",
        on_blocked: Callable[[EnvThread], None],
        thread: EnvThread,
    ) -> None:
        self.name = name
        self.timeout_s = timeout_s
        self.run = run
        self.future = future
        self.on_blocked = on_blocked
        self.thread = thread
        self.context = contextvars.copy_context()
        self.started = 0.0
        """Monotonic seconds; 0: it is queued."""
        self.took_s = 0.0
        """0: it has not ended."""

    def fail_by_limit(self) -> None:
        limit = f"{self.name} took longer than its limit of {self.timeout_s:g} s: reset the session"
        self.future.set_exception(TimeLimitExceeded(limit))


def blocked_by_another() -> TimeLimitExceeded:
    """The error for a verb whose thread a call of another environment blocks for good."""
    return TimeLimitExceeded(
        "the shared environment thread is blocked by another session's step: reset to get a new one"
    )


class _Worker:
    """A thread and its queue."""

    def __init__(self) -> None:
        self.calls: SimpleQueue[_Call | None] = SimpleQueue()
        weakref.finalize(self, self.calls.put, None)
        name = f"environment-{id(self):x}"
        threading.Thread(target=_run_calls, args=(self.calls,), name=name, daemon=True).start()

    def take_queued(self) -> list[_Call]:
        """The calls that have not started; they do not run in this thread any more."""
        queued: list[_Call] = []
        with contextlib.suppress(Empty):
            while (call := self.calls.get_nowait()) is not None:
                queued.append(call)
        return queued


def _run_calls(calls: "SimpleQueue[_Call | None]") -> None:
    while (call := calls.get()) is not None:
        result, error = None, None
        call.started = time.monotonic()
        try:
            if not call.future.cancelled():
                result = call.context.run(call.run)
        except BaseException as raised:  # noqa: BLE001  border: the future carries whatever environment code raised
            error = raised
        call.took_s = time.monotonic() - call.started
        with contextlib.suppress(RuntimeError):  # the event loop has closed
            call.future.get_loop().call_soon_threadsafe(_deliver, call, result, error)
        del call, result, error


def _deliver(call: _Call, result: Any, error: BaseException | None) -> None:
    call.thread.deliver(call, result, error)  # whatever stands for the thread by now
