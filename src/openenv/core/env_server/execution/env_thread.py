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

from openenv.core.env_server.runner.environment_calls import environment_error
from openenv.core.errors import TimeLimitExceeded

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")

CLOSE = "close"
"""The name of calls that close an environment, which an abandoned thread runs too."""
BLOCKED_AFTER_S = 0.1
"""A call that runs for longer holds up the calls of other environments that share its thread."""


class EnvThread:
    """Runs calls one after another, in the caller's context. The thread ends when nothing refers to this object."""

    def __init__(
        self,
        on_ended: Callable[[float], None] = lambda _: None,
        on_overrun: "Callable[[EnvThread], object]" = lambda _: None,
        *,
        is_shared: bool = False,
        taken_over: "tuple[_Worker, list[_Call]] | None" = None,
    ) -> None:
        """
        Args:
            on_ended: called with the seconds that each call took.
            on_overrun: called when a call has outlived its limit.
            is_shared: whether other environments use the thread, and move to another one when a call blocks it.
            taken_over: a thread that runs already, with its calls.
        """
        self.is_shared = is_shared
        self.is_abandoned = False
        """Whether a call has outlived its limit: no further verbs are to be submitted."""
        self._on_ended = on_ended
        self._on_overrun = on_overrun
        worker, calls = taken_over or (_Worker(), [])
        self._worker = worker
        self._unfinished: deque[_Call] = deque(calls)
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
        self._watch_later()
        return call.future

    def split_off(self) -> "EnvThread":
        """Leave the thread to the call that runs. Later calls, those that are queued among them, run in a new one.

        Returns the object that stands for the old thread.
        """
        queued = self._worker.take_queued()
        running = [call for call in self._unfinished if call not in queued]
        old = EnvThread(self._on_ended, self._on_overrun, taken_over=(self._worker, running))
        self._worker, self._unfinished = _Worker(), deque(queued)
        for call in running:
            call.thread = old
            call.on_blocked(old)
        for call in queued:
            self._worker.calls.put(call)
        old._watch_later()
        return old

    def abandon(self) -> None:
        """Leave the thread to the call that runs. Those that are queued fail with TimeLimitExceeded; of them the thread
        runs only those that close an environment."""
        self.is_abandoned = True
        for call in self._worker.take_queued():
            call.fail(blocked_by_another())
            if call.name == CLOSE:
                self._worker.calls.put(call)
            else:
                self._unfinished.remove(call)

    def _watch_later(self) -> None:
        """Watch the first call. One that has outlived its limit needs no more of that."""
        if self._timer is None and self._unfinished and not self._unfinished[0].is_overdue:
            due_s = min(self._unfinished[0].timeout_s, BLOCKED_AFTER_S)
            self._timer = asyncio.get_running_loop().call_later(due_s, self._watch)

    def _watch(self) -> None:
        """Fail a call that has outlived its limit, and move the calls that one holds up."""
        self._timer = None
        if not self._unfinished:
            return
        call = self._unfinished[0]
        ran_s = time.monotonic() - call.started if call.started and not call.took_s else 0.0
        if ran_s >= call.timeout_s:
            call.is_overdue = True
            self._on_overrun(self)  # also if the session has left: the thread is blocked all the same
            limit = f"{call.name} took longer than its limit of {call.timeout_s:g} s: reset the session"
            call.fail(TimeLimitExceeded(limit))
        elif ran_s >= BLOCKED_AFTER_S and self.is_shared and len(self._unfinished) > 1:
            log.warning("%s blocks a thread that other environments share: they move to another", call.name)
            self.split_off()
        self._watch_later()

    def deliver(self, call: "_Call", result: Any, error: BaseException | None) -> None:
        """Called in the event loop when a call has ended."""
        self._unfinished.remove(call)
        self._watch_later()
        self._on_ended(call.took_s)
        if not call.future.done():
            if error is None:
                call.future.set_result(result)
            else:
                call.future.set_exception(error)


class _Call:
    """A call of environment code, and the future of its result."""

    __slots__ = (
        "context", "future", "is_overdue", "name", "on_blocked", "run", "started", "thread", "timeout_s", "took_s"
    )  # fmt: skip

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

        self.is_overdue = False
        """Whether it has outlived its limit, and still runs."""

    def fail(self, error: TimeLimitExceeded) -> None:
        """End the wait for the call, if there is one."""
        if not self.future.done():
            self.future.set_exception(error)
            self.future.exception()  # marks it as retrieved: a close may be submitted without a wait


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
        except StopIteration as raised:  # no future takes it
            error = environment_error(call.name, raised)
        except BaseException as raised:  # noqa: BLE001  border: the future carries whatever environment code raised
            error = raised
        call.took_s = time.monotonic() - call.started
        with contextlib.suppress(RuntimeError):  # the event loop has closed
            call.future.get_loop().call_soon_threadsafe(_deliver, call, result, error)
        del call, result, error


def _deliver(call: _Call, result: Any, error: BaseException | None) -> None:
    call.thread.deliver(call, result, error)  # the object that stands for the thread by now
