"""A program that reads and writes lines, used from any event loop."""

import asyncio
import contextlib
import os
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import IO

from openenv.core.harness.adapter import HarnessNotRunningError, HarnessStartupError

_STDERR_LINES = 200


class HarnessProcess:
    """Runs a program and exchanges lines with it. Threads read its output, so that it belongs to no event loop.

    Example:
        process = HarnessProcess(["my-agent"], cwd="/workspace")
        await process.start(ready_check=lambda line: line == "ready")
        await process.write_line("hello")
        reply = await process.read_line(timeout_s=60)
        await process.stop()
    """

    def __init__(
        self,
        command: list[str],
        cwd: str,
        env_vars: dict[str, str] | None = None,
        startup_timeout_s: float = 30.0,
        terminate_grace_s: float = 5.0,
    ) -> None:
        """env_vars: added to those of this process. startup_timeout_s: until the program is ready. terminate_grace_s:
        between SIGTERM and SIGKILL."""
        self._command = command
        self._cwd = cwd
        self._env_vars = env_vars or {}
        self._startup_timeout_s = startup_timeout_s
        self._terminate_grace_s = terminate_grace_s
        self._process: subprocess.Popen[str] | None = None
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._errors: deque[str] = deque(maxlen=_STDERR_LINES)
        self._error_reader: threading.Thread | None = None

    def is_running(self) -> bool:
        """Whether the program runs."""
        return self._process is not None and self._process.poll() is None

    def drain_stderr(self) -> str:
        """The latest lines of the program's error output."""
        return "\n".join(self._errors)

    async def start(self, ready_check: Callable[[str], bool] | None = None) -> None:
        """Start the program and wait for the line that `ready_check` accepts; None: do not wait.

        Raises HarnessStartupError if the program cannot be started, ends, or is not ready in time.
        """
        if self.is_running():
            raise HarnessStartupError(f"{self._command[0]} runs already: stop() it first")
        self._spawn()
        if ready_check is not None:
            await self._wait_until_ready(ready_check)

    def _spawn(self) -> None:
        lines: SimpleQueue[str | None] = SimpleQueue()
        self._lines, self._errors = lines, deque(maxlen=_STDERR_LINES)
        try:
            process = subprocess.Popen(
                self._command, cwd=self._cwd, env={**os.environ, **self._env_vars}, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, encoding="utf-8", errors="replace",
            )  # fmt: skip
        except OSError as error:
            raise HarnessStartupError(f"{self._command[0]} cannot be started in {self._cwd}: {error}") from error
        self._process = process
        assert process.stdout is not None
        assert process.stderr is not None
        _read_lines(process.stdout, lines.put, lambda: lines.put(None))
        self._error_reader = _read_lines(process.stderr, self._errors.append, lambda: None)

    async def _wait_until_ready(self, ready_check: Callable[[str], bool]) -> None:
        deadline = time.monotonic() + self._startup_timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            line = await self.read_line(timeout_s=left_s)
            if line is None:
                break
            if ready_check(line):
                return
        in_time = (
            f"was not ready in {self._startup_timeout_s:g} s"
            if time.monotonic() >= deadline
            else "ended before it was ready"
        )
        await self.stop()
        raise HarnessStartupError(f"{self._command[0]} {in_time}: {self.drain_stderr() or 'it wrote no error'}")

    async def stop(self) -> None:
        """Stop the program: SIGTERM, then SIGKILL. Does nothing when it does not run."""
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(self._end, process)

    def _end(self, process: "subprocess.Popen[str]") -> None:
        process.terminate()
        try:
            process.wait(self._terminate_grace_s)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
        if self._error_reader is not None:
            self._error_reader.join(self._terminate_grace_s)
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()

    async def write_line(self, text: str) -> None:
        """Send a line. Raises HarnessNotRunningError."""
        process = self._process
        if process is None or process.stdin is None or not self.is_running():
            raise HarnessNotRunningError(f"{self._command[0]} does not run: start() it")
        stdin = process.stdin

        def write() -> None:
            stdin.write(text if text.endswith("\n") else f"{text}\n")
            stdin.flush()

        try:
            await asyncio.to_thread(write)
        except (OSError, ValueError) as error:
            raise HarnessNotRunningError(f"{self._command[0]} reads no more: {error}") from error

    async def read_line(self, timeout_s: float | None = None) -> str | None:
        """The next line of output, without its end; None at the end of the output, or after `timeout_s` seconds."""
        lines = self._lines
        try:
            line = await asyncio.to_thread(lines.get, True, timeout_s)
        except Empty:
            return None
        if line is None:
            lines.put(None)  # for the next caller
        return line


def _read_lines(stream: IO[str], put: Callable[[str], object], end: Callable[[], object]) -> threading.Thread:
    """Pass each line of a stream on, from a thread of its own."""

    def read() -> None:
        with stream:
            for line in stream:
                put(line.rstrip("\r\n"))
        end()

    thread = threading.Thread(target=read, name="output of a harness", daemon=True)
    thread.start()
    return thread
