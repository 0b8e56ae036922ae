"""Runs a server's module and ends it when its parent process has ended, however that happened.

`python -m openenv.hosting.parent_watch MODULE [ARGUMENT ...]` reads a pipe as its standard input, whose other
end only the parent holds. When the pipe closes, the server receives SIGTERM; its whole process group is killed if it
does not end in time.
"""

import os
import runpy
import signal
import sys
import threading
import time

from openenv.hosting.server_process import STOP_TIMEOUT_S


def main() -> None:
    """Run the module named by the first argument, like `python -m`."""
    del sys.argv[0]
    threading.Thread(target=_end_with_parent, name="parent-watch", daemon=True).start()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _end_with_parent() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)  # ends it at once on Windows
    time.sleep(STOP_TIMEOUT_S)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
