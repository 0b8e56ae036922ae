"""Ends a server's program although environment code in it has left threads or programs running."""

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

from openenv.hosting.process_tree import descendants_of

log = logging.getLogger(__name__)

INTERRUPTED = 130
"""The exit code of a program that Ctrl-C has ended."""
_THREADS_TIMEOUT_S = 3.0


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
