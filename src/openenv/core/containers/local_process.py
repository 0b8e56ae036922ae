"""A server as a child process of the program that uses it."""

import contextlib
import logging
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from typing import Self

from openenv.core.containers.readiness import wait_until_ready
from openenv.core.errors import ContainerFault, NotReady

log = logging.getLogger(__name__)

STOP_TIMEOUT_S = 5.0
"""How long a server may take to end once it is asked to."""
_SHOWN = 4000  # characters of output in an error
_KEPT_BYTES = 1 << 20
_TETHERS: set[int] = set()
"""Our ends of the pipes that servers have as standard input."""


def _let_go() -> None:
    """In a fork: the servers are another process's, and end with that."""
    while _TETHERS:
        os.close(_TETHERS.pop())


os.register_at_fork(after_in_child=_let_go)


class ServerProcess:
    """A command that serves at `base_url`. What it prints is kept for the error that says why it does not.

    Its standard input is a pipe that ends when this program does, in whatever way: what reads it can end then, too.
    """

    def __init__(self, command: Sequence[str], base_url: str, env_vars: Mapping[str, str] | None = None) -> None:
        """Start it. env_vars: added to this program's own. Raises ContainerFault when there is no such command."""
        self.base_url = base_url
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed by stop()
        servers_end, self._tether = os.pipe()
        _TETHERS.add(self._tether)
        try:
            self._process = subprocess.Popen(
                list(command),
                stdin=servers_end,
                stdout=self._log,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env_vars or {})},
                start_new_session=True,  # a terminal's Ctrl-C is for the program, which stops the server itself
            )
        except OSError as error:
            self._close()
            raise ContainerFault(f"{command[0]} cannot be run: {error}") from error
        finally:
            os.close(servers_end)
        log.info("started %s: pid=%d url=%s", " ".join(command), self._process.pid, base_url)

    @property
    def pid(self) -> int:
        """The process id."""
        return self._process.pid

    @property
    def is_running(self) -> bool:
        """Whether it has not ended yet."""
        return self._process.poll() is None

    def wait(self, timeout_s: float) -> int:
        """Its exit code, once it has ended. Raises TimeoutExpired when it has not."""
        return self._process.wait(timeout_s)

    def wait_until_healthy(self, timeout_s: float) -> None:
        """Return when it answers. Raises NotReady, with its output, when it ends, or takes longer than `timeout_s`."""
        try:
            wait_until_healthy(self.base_url, self._process, timeout_s)
        except NotReady as error:
            raise NotReady(f"{error}\n{self.output()[-_SHOWN:]}") from None

    def stop(self) -> None:
        """End it and what it started: ask first, insist after five seconds. Stopping twice does nothing."""
        if self._log.closed:
            return
        self._process.terminate()
        try:
            self._process.wait(STOP_TIMEOUT_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        with contextlib.suppress(ProcessLookupError, PermissionError):  # as a rule it has left nothing behind
            os.killpg(self._process.pid, signal.SIGKILL)
        self._close()

    def _close(self) -> None:
        if self._tether in _TETHERS:
            _TETHERS.remove(self._tether)
            os.close(self._tether)
        self._log.close()

    def output(self) -> str:
        """The end of what it has printed, its log among it: at most a mebibyte."""
        size = os.fstat(self._log.fileno()).st_size
        # not seek and read: the file's position is the server's too
        return os.pread(self._log.fileno(), _KEPT_BYTES, max(0, size - _KEPT_BYTES)).decode(errors="replace")


class LocalServer:
    """An environment's server module, run with this Python on a free port of the loopback interface.

    Example:
        with LocalServer("openenv.envs.openspiel_env.server.app", ["--game", "catch"]) as server:
            env = OpenSpielEnv(base_url=server.base_url)
    """

    def __init__(
        self,
        module: str,
        args: Sequence[str] = (),
        *,
        env_vars: Mapping[str, str] | None = None,
        start_timeout_s: float = 60.0,
    ) -> None:
        self._module, self._args = module, args
        self._env_vars = env_vars
        self._start_timeout_s = start_timeout_s
        self._process: ServerProcess | None = None
        self.base_url = ""

    def start(self) -> Self:
        """Start the server and wait until it is healthy. Raises NotReady, with its output, when it is not."""
        port = free_port()
        self.base_url = f"http://127.0.0.1:{port}"
        self._process = ServerProcess(module_command(self._module, port, self._args), self.base_url, self._env_vars)
        try:
            self._process.wait_until_healthy(self._start_timeout_s)
        except BaseException:
            self.stop()
            raise
        return self

    @property
    def pid(self) -> int:
        """The server's process id. Raises RuntimeError when it does not run."""
        if self._process is None:
            raise RuntimeError("the server does not run: start() it")
        return self._process.pid

    def output(self) -> str:
        """What the running server has printed, its log among it. Raises RuntimeError when it does not run."""
        if self._process is None:
            raise RuntimeError("the server does not run: start() it")
        return self._process.output()

    def stop(self) -> None:
        """End the server: ask first, insist after five seconds. Stopping twice does nothing."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()


def module_command(module: str, port: int, args: Sequence[str] = ()) -> list[str]:
    """Serves an environment's server module on that port, and no longer than this program lives."""
    tethered = [sys.executable, "-m", "openenv.core.containers.tethered"]
    return [*tethered, module, *args, "--host", "127.0.0.1", "--port", str(port)]


def wait_until_healthy(base_url: str, process: "subprocess.Popen[bytes]", timeout_s: float) -> None:
    """Return when the server that `process` runs answers. Raises NotReady when it ends, or takes too long."""

    def ended() -> str | None:
        if process.poll() is None:
            return None
        return f"{_command_of(process)} ended with code {process.returncode}"

    try:
        wait_until_ready(base_url, timeout_s, ended)
    except NotReady as error:
        raise error if process.poll() is not None else NotReady(f"{_command_of(process)}: {error}") from None


def _command_of(process: "subprocess.Popen[bytes]") -> str:
    return " ".join(map(str, process.args)) if isinstance(process.args, list) else str(process.args)


def free_port() -> int:
    """A port of the loopback interface that nobody listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
