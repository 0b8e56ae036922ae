"""The border of a program with a command line: its terminal, signals, errors and exit codes."""

import io
import logging
import os
import signal
import sys
from collections.abc import Callable
from functools import partial
from typing import Any

log = logging.getLogger(__name__)


def run_command(command: Callable[[list[str]], Any]) -> None:
    """Run a command with the arguments of this program.

    Exit codes: 0 done, 1 failed, 2 wrong arguments, 130 interrupted, 143 terminated. An error that a user can correct
    is one line on stderr.
    """
    _show_what_the_terminal_can()
    terminated: list[int] = []
    signal.signal(signal.SIGTERM, partial(_end_as_after_ctrl_c, terminated))
    try:
        command([_as_utf8(argument) for argument in sys.argv[1:]])
    except (KeyboardInterrupt, SystemExit) as end:
        if not terminated and isinstance(end, SystemExit):
            raise
        sys.exit(143 if terminated else 130)
    except (ValueError, LookupError, OSError, RuntimeError, ImportError) as error:  # border: of the command line
        log.info("failed", exc_info=True)
        sys.stderr.write(f"openenv: {error}\n")
        sys.exit(1)


def _show_what_the_terminal_can() -> None:
    """Replace characters that the terminal's encoding does not have, instead of failing on them."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="replace")


def _as_utf8(argument: str) -> str:
    """An argument whose bytes a locale without UTF-8 has not read. The name of a file stays as the system has it."""
    if os.path.exists(argument.partition(":")[0]):
        return argument
    try:
        return os.fsencode(argument).decode("utf-8")
    except UnicodeDecodeError:
        return argument


def _end_as_after_ctrl_c(terminated: list[int], number: int, _: object) -> None:
    """The handler of SIGTERM: an event loop cancels its work and waits for its end, and servers are stopped.

    A second SIGTERM has no effect: it would break that off. terminated: receives the signal's number.
    """
    terminated.append(number)
    signal.signal(signal.SIGTERM, lambda *_: None)
    if signal.getsignal(signal.SIGINT) in (signal.SIG_IGN, None):  # in the background of a shell without job control
        sys.exit(143)
    signal.raise_signal(signal.SIGINT)
