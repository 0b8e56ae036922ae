"""Runs reasoning-gym in a process of its own, which all sessions of a server share.

Four reasons:
- Some datasets order sets of strings by their hash: the process has PYTHONHASHSEED=0, whatever the server has.
- Some draw from global random numbers: the process sets them before each task, and makes one task at a time.
- Scorers can take forever on some answers, and datasets on some settings: the process then ends, and not the server.
- Some scorers evaluate what the client wrote. `scores.py` lets plain expressions pass only; the process is a second
  wall.
"""

import json
import os
import subprocess
import sys
import threading
from typing import Any

from openenv.formats.json_text import json_text
from openenv.installation import install_line

WORKER = "openenv.envs.reasoning_gym_env.server.worker"


class LibraryEnded(Exception):
    """The process has ended during a request, which took too much time or memory. The next request starts another."""


class LibraryProcess:
    """Sends requests to the process, one at a time. The process ends with this one."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[str] | None = None
        self._owner = 0
        """The process that has started it: one that is forked from there starts its own."""

    def start(self) -> None:
        """Start it where it does not run, and wait until it has loaded the library, which takes seconds."""
        with self._lock:
            self._running()

    def request(self, **fields: Any) -> dict[str, Any]:
        """The response. Raises ValueError with the library's own reason, and LibraryEnded."""
        line = json_text(fields) + "\n"
        with self._lock:
            response = self._exchange(self._running(), line)
            if not response:
                self._end()
                raise LibraryEnded("reasoning-gym ended during the request")
        found: dict[str, Any] = json.loads(response)
        if "error" in found:
            raise ValueError(found["error"])
        return found

    def _exchange(self, process: subprocess.Popen[str], line: str) -> str:
        """The response; empty when the process has ended."""
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            process.stdin.write(line)
            process.stdin.flush()
        except BrokenPipeError:
            return ""
        return process.stdout.readline()

    def _running(self) -> subprocess.Popen[str]:
        if self._process is None or self._owner != os.getpid():
            self._process, self._owner = self._start(), os.getpid()
        return self._process

    def _start(self) -> subprocess.Popen[str]:
        """A new process. Raises RuntimeError if it cannot load the library."""
        environment = {**os.environ, "PYTHONHASHSEED": "0", "OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
        process = subprocess.Popen(
            [sys.executable, "-W", "ignore", "-m", WORKER],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            encoding="utf-8",
            env=environment,
            start_new_session=True,  # an interrupt of the terminal is the server's
        )
        assert process.stdout is not None
        if not process.stdout.readline():
            process.communicate()
            raise RuntimeError(f"{WORKER} could not load reasoning-gym: {install_line('reasoning_gym')}")
        return process

    def _end(self) -> None:
        assert self._process is not None
        self._process.kill()
        self._process.communicate()
        self._process = None


LIBRARY = LibraryProcess()
"""The process of this server."""
