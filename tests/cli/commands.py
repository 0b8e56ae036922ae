"""Runs `openenv`: in this process, or in one of its own where a signal ends it."""

import contextlib
import io
import logging
import os
import signal
import subprocess
import sys
from pathlib import Path
from unittest import mock

from openenv.cli.main import main

OPENENV = [sys.executable, "-m", "openenv"]


def run(*args: str, cwd: Path | None = None) -> "subprocess.CompletedProcess[str]":
    """Run a command to its end in this process, as its entry point does; return its exit code and output."""
    out, errors, code = io.StringIO(), io.StringIO(), 0
    with (
        contextlib.redirect_stdout(out),
        contextlib.redirect_stderr(errors),
        contextlib.chdir(cwd or Path.cwd()),
        mock.patch.object(sys, "argv", ["openenv", *args]),
        mock.patch.dict(os.environ, COLUMNS="200"),
        _restored_process(),
    ):
        try:
            main()
        except SystemExit as ended:
            code = ended.code if isinstance(ended.code, int) else int(ended.code is not None)
    return subprocess.CompletedProcess(args, code, out.getvalue(), errors.getvalue())


def run_process(*args: str) -> "subprocess.CompletedProcess[str]":
    """The same in a process of its own, for a command that imports the user's modules."""
    return subprocess.run([*OPENENV, *args], capture_output=True, text=True, timeout=120, check=False)


@contextlib.contextmanager
def _restored_process():
    """Log handlers and the handler of SIGTERM, which a command sets, are as before at the end."""
    root, handler = logging.getLogger(), signal.getsignal(signal.SIGTERM)
    with mock.patch.object(root, "handlers", []), mock.patch.object(root, "level", root.level):
        try:
            yield
        finally:
            signal.signal(signal.SIGTERM, handler)
