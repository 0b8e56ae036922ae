"""Ends a server's program although environment code in it has replaced signal handlers, or left threads or programs
running."""

import asyncio
import atexit
import contextlib
import logging
import os
import signal
import sys
import threading
from collections.abc import Iterator
from types import FrameType
from typing import NoReturn

from openenv.core.net.forks import descendants_of

log = logging.getLogger(__name__)

_CHECK_INTERVAL_S = 0.25
_THREADS_TIMEOUT_S = 3.0


async def keep_signal_handlers() -> None:
    """Restore the handlers of SIGINT and SIGTERM when environment code has replaced them. Runs as the server does.

    Without them the server would not learn that it is to stop. Outside the main thread there is nothing to keep.
    """
    if threading.current_thread() is not threading.main_thread():
        return
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    while True:
        await asyncio.sleep(_CHECK_INTERVAL_S)
        for number, handler in handlers.items():
            if signal.getsignal(number) != handler and handler is not None:
                signal.signal(number, handler)
                log.warning("environment code replaced the handler of %s: it is restored", number.name)


@contextlib.contextmanager
def children_end_at_exit() -> Iterator[None]:
    """Send SIGTERM to all descendants of this process that the block has started and that still run when it ends.

    Those are the programs of environments that run in this process. Needs /proc; elsewhere nothing is sent.
    """
    before = descendants_of(os.getpid())
    try:
        yield
    finally:
        for pid in descendants_of(os.getpid()) - before:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.kill(pid, signal.SIGTERM)


def exit_on_sigterm() -> None:
    """Let SIGTERM end this program with exit code 0, three seconds after its own end at the latest.

    Python waits without a limit for threads that are no daemons, such as those that environment code has started.
    """
    signal.signal(signal.SIGTERM, _exit)


def _exit(_signal: int, _frame: FrameType | None) -> NoReturn:
    has_no_threads = threading.Event()
    atexit.register(has_no_threads.set)  # Python calls it when those threads have ended
    threading.Thread(target=_exit_despite_threads, args=(has_no_threads,), daemon=True).start()
    sys.exit(0)


def _exit_despite_threads(has_no_threads: threading.Event) -> None:
    threading.main_thread().join()
    if not has_no_threads.wait(_THREADS_TIMEOUT_S):
        left = [thread.name for thread in threading.enumerate() if not thread.daemon]
        log.warning("threads of environment code did not end with the server: %s", ", ".join(left))
        sys.stdout.flush()
        os._exit(0)
