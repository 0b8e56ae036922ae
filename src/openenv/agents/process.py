"""A program that reads and writes lines, used from any event loop."""

import asyncio
import contextlib
import os
import signal
import subprocess
import threading
import time
from collections import deque
from collections.abc import Callable
from queue import Empty, SimpleQueue
from typing import IO

from openenv.agents.adapter import HarnessNotRunningError, HarnessStartupError

_STDERR_LINES = 200
_POLL_INTERVAL_S = 0.01


class HarnessProcess:
    """Runs a program and exchanges lines with it. Threads read its output, so that it belongs to no event loop.

    The program leads a process group of its own; `stop` ends that group, with the programs that it has started.

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
        self.command = list(command)
        self.cwd = cwd
        self.env_vars = dict(env_vars or {})
        self.startup_timeout_s = startup_timeout_s
        self.terminate_grace_s = terminate_grace_s
        self._process: subprocess.Popen[str] | None = None
        self._lines: SimpleQueue[str | None] = SimpleQueue()
        self._errors: deque[str] = deque(maxlen=_STDERR_LINES)
        self._error_reader: threading.Thread | None = None

    def is_running(self) -> bool:
        """Whether the program runs."""
        return self._process is not None and self._process.poll() is None

    def drain_stderr(self) -> str:
        """The latest lines of the program's error output, with their line breaks."""
        return "".join(self._errors)

    async def start(self, ready_check: Callable[[str], bool] | None = None) -> None:
        """Start the program and wait for the line that `ready_check` accepts; None: do not wait.

        Raises HarnessStartupError if the program cannot be started, ends, or is not ready in time, and what
        `ready_check` raises; the program is then stopped.
        """
        if self.is_running():
            raise HarnessStartupError(f"{self.command[0]} runs already: stop() it first")
        await self.stop()  # a program that ended by itself may have left others, and holds pipes
        self._spawn()
        if ready_check is not None:
            try:
                await self._wait_until_ready(ready_check)
            except BaseException:
                await self.stop()
                raise

    def _spawn(self) -> None:
        lines: SimpleQueue[str | None] = SimpleQueue()
        self._lines, self._errors = lines, deque(maxlen=_STDERR_LINES)
        try:
            process = subprocess.Popen(
                self.command, cwd=self.cwd, env={**os.environ, **self.env_vars}, stdin=subprocess.PIPE,
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, encoding="utf-8", errors="replace",
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise HarnessStartupError(f"{self.command[0]} cannot be started in {self.cwd}: {error}") from error
        self._process = process
        assert process.stdout is not None
        assert process.stderr is not None
        _read_lines(process.stdout, lambda line: lines.put(line.rstrip("\n")), lambda: lines.put(None))
        self._error_reader = _read_lines(process.stderr, self._errors.append, lambda: None)

    async def _wait_until_ready(self, ready_check: Callable[[str], bool]) -> None:
        deadline = time.monotonic() + self.startup_timeout_s
        while (left_s := deadline - time.monotonic()) > 0:
            line = await self.read_line(timeout_s=left_s)
            if line is None:
                break
            if ready_check(line):
                return
        in_time = (
            f"was not ready in {self.startup_timeout_s:g} s"
            if time.monotonic() >= deadline
            else "ended before it was ready"
        )
        await self.stop()
        raise HarnessStartupError(f"{self.command[0]} {in_time}: {self.drain_stderr().strip() or 'it wrote no error'}")

    async def stop(self) -> None:
        """Stop the program and those that it has started: SIGTERM, then SIGKILL. Does nothing when none runs."""
        process, self._process = self._process, None
        if process is not None:
            await asyncio.to_thread(self._end, process)

    def _end(self, process: "subprocess.Popen[str]") -> None:
        deadline = time.monotonic() + self.terminate_grace_s
        is_left = _signal_group(process, signal.SIGTERM)
        while is_left and time.monotonic() < deadline:
            time.sleep(_POLL_INTERVAL_S)
            is_left = _signal_group(process, 0)
        if is_left:
            _signal_group(process, signal.SIGKILL)
        process.wait()
        if self._error_reader is not None:
            self._error_reader.join(self.terminate_grace_s)
        with contextlib.suppress(OSError):
            assert process.stdin is not None
            process.stdin.close()

    async def write_line(self, text: str) -> None:
        """Send a line. Raises HarnessNotRunningError."""
        process = self._process
        if process is None or process.stdin is None or not self.is_running():
            raise HarnessNotRunningError(f"{self.command[0]} does not run: start() it")
        stdin = process.stdin

        def write() -> None:
            stdin.write(text if text.endswith("\n") else f"{text}\n")
            stdin.flush()

        try:
            await asyncio.to_thread(write)
        except (OSError, ValueError) as error:
            raise HarnessNotRunningError(f"{self.command[0]} reads no more: {error}") from error

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


def _signal_group(process: "subprocess.Popen[str]", number: int) -> bool:
    """Send a signal to a program's process group; 0 sends none. Whether the group has a process that takes it."""
    process.poll()  # a dead process counts until it is waited for
    try:
        os.killpg(process.pid, number)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def _read_lines(stream: IO[str], put: Callable[[str], object], end: Callable[[], object]) -> threading.Thread:
    """Pass each line of a stream on, from a thread of its own."""

    def read() -> None:
        with stream:
            for line in stream:
                put(line)
        end()

    thread = threading.Thread(target=read, name="output of a harness", daemon=True)
    thread.start()
    return thread
