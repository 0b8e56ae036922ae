"""A server as a child process: starts it, waits until it is healthy, keeps its output, and stops it."""

import contextlib
import logging
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from http import HTTPStatus
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Self
from urllib.parse import urlsplit

from openenv.core.errors import ContainerFault, NotReady
from openenv.core.net.forks import ProcessBound
from openenv.core.wire.constants import UNIX

_POLL_INTERVAL_S = 0.05
_ENDED_INTERVAL_S = 0.5
_REQUEST_TIMEOUT_S = 2.0


class _NoRedirects(urllib.request.HTTPRedirectHandler):
    """Takes a redirect for a failure: a server in a sandbox must not let this process call an address of its choice."""

    def redirect_request(self, *_: object) -> None:
        """Called for a redirect."""


# No proxy: the server is on this machine or in its cluster.
_OPENER = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirects())


def wait_until_ready(base_url: str, timeout_s: float, ended: Callable[[], str | None] | None = None) -> None:
    """Wait until `/health` succeeds. Raises NotReady after `timeout_s`, or with the reason that `ended` returns.

    ended: returns why the server has ended, or None while it runs. It is called twice a second, because it may run a
    command.
    """
    deadline = time.monotonic() + timeout_s
    next_check = 0.0
    while True:
        now = time.monotonic()
        left_s = deadline - now
        if ended is not None and (now >= next_check or left_s <= 0):
            next_check = now + _ENDED_INTERVAL_S
            reason = ended()
            if reason is not None:
                raise NotReady(reason)
        if left_s <= 0:
            raise NotReady(f"{base_url} was not healthy in {timeout_s:g} s")
        if _is_healthy(base_url, min(left_s, _REQUEST_TIMEOUT_S)):
            return
        time.sleep(min(_POLL_INTERVAL_S, max(deadline - time.monotonic(), 0)))


def _is_healthy(base_url: str, timeout_s: float) -> bool:
    """Whether `/health` succeeds, on a port or a Unix socket."""
    try:
        if not base_url.startswith(UNIX):
            with _OPENER.open(f"{base_url.rstrip('/')}/health", timeout=timeout_s):
                return True
        with _UnixConnection(base_url.removeprefix(UNIX), timeout_s) as connection:
            connection.request("GET", "/health")
            return connection.getresponse().status == HTTPStatus.OK
    except (OSError, HTTPException):
        return False


class _UnixConnection(HTTPConnection):
    """HTTP over a Unix socket; closed at the end of a `with` block."""

    def __init__(self, path: str, timeout_s: float) -> None:
        super().__init__("localhost", timeout=timeout_s)
        self._path = path

    def connect(self) -> None:
        """Called by the first request."""
        self.sock = socket.socket(socket.AF_UNIX)
        self.sock.settimeout(self.timeout)
        self.sock.connect(self._path)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 5.0
"""Seconds that a server may take to end after SIGTERM."""
_OUTPUT_IN_ERRORS = 4000  # characters
_MAX_OUTPUT_BYTES = 1 << 20


class ChildProcess(ProcessBound):
    """A command that runs beside this process. Its output is kept for error messages.

    Its standard input is a pipe that closes when this process ends, however it ends. A command that reads the pipe can
    then end too.
    """

    def __init__(self, command: Sequence[str], env_vars: Mapping[str, str] | None = None) -> None:
        """Start the command. env_vars: added to the environment. Raises ContainerFault if there is no such command."""
        log_fd, self._log_path = tempfile.mkstemp(prefix="openenv-", suffix=".log")
        self._log = open(self._log_path, "rb")  # noqa: SIM115  closed by stop()
        if os.name == "posix":  # elsewhere an open file cannot be removed
            os.unlink(self._log_path)
        servers_end, parents_end = os.pipe()
        self._parent_pipe: int | None = parents_end
        super().__init__()
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=servers_end,
                stdout=log_fd,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env_vars or {})},
                start_new_session=True,  # Ctrl-C must reach this process only, which stops the server
            )
        except OSError as error:
            self._close()
            raise ContainerFault(f"{command[0]} cannot be run: {error}") from error
        finally:
            os.close(servers_end)
            os.close(log_fd)
        log.info("started %s: pid=%d", " ".join(command), self._process.pid)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether the process is running."""
        return self._process.poll() is None

    def wait(self, timeout_s: float | None) -> int:
        """Wait for the process to end and return its exit code. Raises TimeoutExpired after `timeout_s`, if given."""
        return self._process.wait(timeout_s)

    def stop(self) -> None:
        """Stop the process and its children: SIGTERM, then SIGKILL after five seconds. A second call does nothing.

        In a fork of the process that started it, it does nothing either.
        """
        if self._log.closed:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if hasattr(os, "killpg"):
            with contextlib.suppress(ProcessLookupError, PermissionError):  # usually no child is left
                os.killpg(self._process.pid, signal.SIGKILL)
        self._close()

    def kill(self) -> None:
        """End the process and its children at once. Call `stop` too, for what is kept of it."""
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()

    def leave_to_parent(self) -> None:
        """Close the pipe and the log: a fork must not keep the pipe open, or the server would outlive its parent."""
        if self._parent_pipe is not None:
            os.close(self._parent_pipe)
            self._parent_pipe = None
        self._log.close()

    def _close(self) -> None:
        self.leave_to_parent()
        with contextlib.suppress(FileNotFoundError):
            os.unlink(self._log_path)

    def output(self) -> str:
        """The last mebibyte of its output, including its log. Empty once another thread has stopped it."""
        if self._log.closed:
            return ""
        size = os.fstat(self._log.fileno()).st_size
        self._log.seek(max(0, size - _MAX_OUTPUT_BYTES))
        return self._log.read(_MAX_OUTPUT_BYTES).decode(errors="replace")

    def save_output(self, file: Path) -> None:
        """Append all its output to a file."""
        self._log.seek(0)
        with file.open("ab") as saved:
            shutil.copyfileobj(self._log, saved)


class ServerProcess(ChildProcess):
    """A command that serves at `base_url`."""

    keeps_port = False
    """Whether its port stays kept when it has stopped, for the server that follows it there."""

    def __init__(self, command: Sequence[str], base_url: str, env_vars: Mapping[str, str] | None = None) -> None:
        """As `ChildProcess`."""
        self.base_url = base_url
        self._command = tuple(command)
        super().__init__(command, env_vars)

    def wait_until_healthy(self, timeout_s: float) -> None:
        """Wait until the server is healthy. Raises NotReady, with its output, if it ends or after `timeout_s`."""
        try:
            wait_until_healthy(self.base_url, self._process, timeout_s)
        except NotReady as error:
            lines = (str(error), self.output()[-_OUTPUT_IN_ERRORS:].strip(), f"Its command: {' '.join(self._command)}")
            raise NotReady("\n".join(filter(None, lines))) from None

    def _close(self) -> None:
        super()._close()
        if not self.keeps_port:
            _release_port(urlsplit(self.base_url).port)


def module_command(module: str, port: int, args: Sequence[str] = ()) -> list[str]:
    """The command that runs a server module on that port and ends it when this process ends."""
    watched = [sys.executable, "-m", "openenv.hosting.parent_watch"]
    return [*watched, module, *args, "--host", "127.0.0.1", "--port", str(port)]


def wait_until_healthy(base_url: str, process: "subprocess.Popen[bytes]", timeout_s: float) -> None:
    """Wait until the server of `process` is healthy. Raises NotReady if it ends or after `timeout_s`."""

    def ended() -> str | None:
        if process.poll() is None:
            return None
        return f"the server ended with code {process.returncode}"

    wait_until_ready(base_url, timeout_s, ended)


_MOST_KEPT = 64
_kept_ports: dict[int, int] = {}
"""Ports that were given out and whose server has not ended, each with the file descriptor that keeps it."""


def free_port() -> int:
    """An unused port of the loopback interface.

    Linux gives it to no other program meanwhile: a bound socket keeps it for a server that asks for this port, with
    SO_REUSEADDR, as servers do. Otherwise another server may take it while this one starts, and answer in its place.
    """
    with socket.socket() as keeper:
        keeper.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        keeper.bind(("127.0.0.1", 0))
        port: int = keeper.getsockname()[1]
        if sys.platform == "linux":
            _kept_ports[port] = keeper.detach()
    if len(_kept_ports) > _MOST_KEPT:
        _release_port(next(iter(_kept_ports)))
    return port


def _release_port(port: int | None) -> None:
    if port in _kept_ports:
        os.close(_kept_ports.pop(port))
