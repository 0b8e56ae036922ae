"""Runs a server's module until the program that started it is gone, however that ended.

`python -m openenv.core.containers.tethered MODULE [ARGUMENT ...]`, with a pipe as standard input whose other end that
program alone holds open, and in a process group of its own: the server is asked to stop, and killed with what it has
started when it takes too long.
"""

import os
import runpy
import signal
import sys
import threading
import time

from openenv.core.containers.local_process import STOP_TIMEOUT_S


def main() -> None:
    """Run the module that the first argument names, as `python -m` does."""
    del sys.argv[0]
    threading.Thread(target=_end_with_the_pipe, name="tether", daemon=True).start()
    runpy.run_module(sys.argv[0], run_name="__main__", alter_sys=True)


def _end_with_the_pipe() -> None:
    while os.read(sys.stdin.fileno(), 1024):
        pass
    os.kill(os.getpid(), signal.SIGTERM)
    time.sleep(STOP_TIMEOUT_S)
    os.killpg(os.getpgrp(), signal.SIGKILL)


if __name__ == "__main__":
    main()
