"""Time limit of environment code that runs in the server's event loop, where no other code can interrupt it.

A watchdog thread checks every quarter of a second whether the running call has outlived its limit. If so, it sends the
main thread a signal, whose handler raises in the call. The signal is SIGURG, which programs leave alone: SIGALRM and
its timer belong to environments, some of which use them for limits of their own. Python handles signals in the main
thread only. A server whose event loop runs in another thread has no limit for inline code, and logs that once.
"""

import logging
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Generator
from types import FrameType
from typing import Any, Generic, ParamSpec, TypeVar

from openenv.core.errors import TimeLimitExceeded

log = logging.getLogger(__name__)

ResultT = TypeVar("ResultT")
Args = ParamSpec("Args")

_CHECK_INTERVAL_S = 0.25


class _RunningCall:
    """The inline call that runs now. One event loop runs in the main thread, and it runs one call at a time."""

    __slots__ = ("deadline", "name")

    def __init__(self) -> None:
        self.name = ""
        self.deadline = 0.0
        """Monotonic seconds; 0 while no call runs."""


_RUNNING = _RunningCall()


class _Watchdog(threading.Thread):
    """Signals the main thread while its call is beyond its deadline."""

    def __init__(self) -> None:
        super().__init__(name="time limits of inline environments", daemon=True)
        self._has_ended = threading.Event()

    def run(self) -> None:
        main = threading.main_thread().ident
        assert main is not None
        while not self._has_ended.wait(_CHECK_INTERVAL_S):
            if _RUNNING.deadline and time.monotonic() > _RUNNING.deadline:
                signal.pthread_kill(main, signal.SIGURG)

    def end(self) -> None:
        """Return when the thread has ended."""
        self._has_ended.set()
        self.join()


_watchdogs: list[_Watchdog] = []
"""The one that runs, if any."""


def start_watchdog() -> bool:
    """Start the watchdog, unless it runs. Returns whether inline code has a limit: False outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        log.info("the server does not run in the main thread: inline environments have no time limit")
        return False
    if not hasattr(signal, "pthread_kill"):
        log.info("inline environments have no time limit on this system, which sends no signals to threads")
        return False
    signal.signal(signal.SIGURG, _check)
    if not _watchdogs:
        _watchdogs.append(_Watchdog())
        _watchdogs[-1].start()
    return True


def stop_watchdog() -> None:
    """Stop the watchdog, where it was started."""
    if threading.current_thread() is threading.main_thread():
        while _watchdogs:
            _watchdogs.pop().end()


def call_with_timeout(
    name: str, timeout_s: float, call: Callable[Args, ResultT], /, *args: Args.args, **kwargs: Args.kwargs
) -> ResultT:
    """Return what `call` returns. Raises TimeLimitExceeded in it after `timeout_s`, up to 0.25 s late.

    name: what the error calls it, such as `step`.
    """
    _RUNNING.name = name
    _RUNNING.deadline = time.monotonic() + timeout_s
    try:
        return call(*args, **kwargs)
    finally:
        _RUNNING.deadline = 0.0


class TimedCoroutine(Generic[ResultT]):
    """Awaits a coroutine with the time limit on each stretch between two of its awaits, where it may block."""

    def __init__(self, name: str, timeout_s: float, coroutine: Coroutine[Any, Any, ResultT]) -> None:
        self._name = name
        self._timeout_s = timeout_s
        self._coroutine = coroutine

    def __await__(self) -> Generator[Any, Any, ResultT]:
        resume: Callable[[Any], Any] = self._coroutine.send
        value: Any = None
        while True:
            try:
                awaited = call_with_timeout(self._name, self._timeout_s, resume, value)
            except StopIteration as end:
                result: ResultT = end.value
                return result
            try:
                resume, value = self._coroutine.send, (yield awaited)
            except BaseException as error:  # noqa: BLE001  passed on into the coroutine, cancellation too
                resume, value = self._coroutine.throw, error


def _check(_signal: int, _frame: FrameType | None) -> None:
    """Raises at every check while the call goes on, so that code which catches everything does not outlive it."""
    if _RUNNING.deadline and time.monotonic() > _RUNNING.deadline:
        raise TimeLimitExceeded(f"{_RUNNING.name} took longer than its limit: reset the session")
