"""A time limit for code that runs in the event loop itself, where nothing else gets a turn to stop it.

A timer signal looks every quarter of a second whether the code that runs now has outlived its limit, and raises in it.
Signals reach the main thread only, where a served event loop runs; elsewhere inline code has no limit, and the server
says so once.
"""

import functools
import logging
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from types import FrameType
from typing import Any, Generic, TypeVar

from openenv.core.errors import TimeLimitExceeded

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")
DataT = TypeVar("DataT")
OptionsT = TypeVar("OptionsT")

_LOOK_EVERY_S = 0.25


class _Running:
    """The inline call that runs now: there is one event loop in the main thread, and it runs one call at a time."""

    __slots__ = ("deadline", "verb")

    def __init__(self) -> None:
        self.verb = ""
        self.deadline = 0.0  # monotonic seconds; 0 when nothing runs


RUNNING = _Running()
"""The hot path sets it itself, without a call for it."""


def start_watching() -> bool:
    """Start the timer, in the main thread. Returns whether inline code has a limit from now on."""
    if threading.current_thread() is not threading.main_thread():
        log.info("the server does not run in the main thread: inline environments have no time limit")
        return False
    signal.signal(signal.SIGALRM, _look)
    signal.siginterrupt(signal.SIGALRM, False)  # other threads' system calls go on as if nothing had come
    signal.setitimer(signal.ITIMER_REAL, _LOOK_EVERY_S, _LOOK_EVERY_S)
    return True


def stop_watching() -> None:
    """Stop the timer, where it was started."""
    if threading.current_thread() is threading.main_thread():
        signal.setitimer(signal.ITIMER_REAL, 0)


class InlineTimeLimit:
    """Raises TimeLimitExceeded in the code inside when it outlives `timeout_s`, give or take a quarter of a second."""

    __slots__ = ("_timeout_s", "_verb")

    def __init__(self, verb: str, timeout_s: float) -> None:
        self._verb = verb
        self._timeout_s = timeout_s

    def __enter__(self) -> None:
        RUNNING.verb = self._verb
        RUNNING.deadline = time.monotonic() + self._timeout_s

    def __exit__(self, *_: object) -> None:
        RUNNING.deadline = 0.0


def limited_call(
    call: Callable[[str, DataT, OptionsT], ResultT], verb: str, data: DataT, options: OptionsT, timeout_s: float
) -> ResultT:
    """What `call` returns, under the limit of an InlineTimeLimit: for the hot path, which makes no object for it."""
    RUNNING.verb = verb
    RUNNING.deadline = time.monotonic() + timeout_s
    try:
        return call(verb, data, options)
    finally:
        RUNNING.deadline = 0.0


class Slices(Generic[ResultT]):
    """Awaits a coroutine with the time limit on each stretch between two of its awaits, where it might block."""

    def __init__(self, verb: str, coroutine: Coroutine[Any, Any, ResultT], timeout_s: float) -> None:
        self._verb = verb
        self._coroutine = coroutine
        self._timeout_s = timeout_s

    def __await__(self) -> Generator[Any, Any, ResultT]:
        go_on: Callable[[], Any] = functools.partial(self._coroutine.send, None)
        while True:
            try:
                with InlineTimeLimit(self._verb, self._timeout_s):
                    waited_for = go_on()
            except StopIteration as end:
                result: ResultT = end.value
                return result
            try:
                go_on = functools.partial(self._coroutine.send, (yield waited_for))
            except BaseException as error:  # noqa: BLE001  handed on into the coroutine, cancellation too
                go_on = functools.partial(self._coroutine.throw, error)


def _look(_signal: int, _frame: FrameType | None) -> None:
    """Raises at every look while the call goes on, so that code which catches everything does not outlive it."""
    if RUNNING.deadline and time.monotonic() > RUNNING.deadline:
        raise TimeLimitExceeded(f"{RUNNING.verb} took longer than its limit: reset the session")
