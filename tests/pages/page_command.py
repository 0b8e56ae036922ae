"""Commands that serve a page, in a process of their own."""

import re
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager

from tests.cli.commands import OPENENV


@contextmanager
def page_of(*command: str) -> Iterator[tuple[str, "subprocess.Popen[str]"]]:
    """Run `openenv` with a free port until the end of the context. Yields the URL of its page, which ends without a
    slash, and the process, which may be interrupted earlier."""
    arguments = [*OPENENV, *command, "--web", "--port", "0"]
    process = subprocess.Popen(arguments, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    try:
        shown = iter(process.stderr.readline, "")
        yield next(found[1] for line in shown if (found := re.search(r"(http://\S+/web)/", line))), process
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            process.communicate(timeout=30)
