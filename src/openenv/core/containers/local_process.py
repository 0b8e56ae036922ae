"""A server as a child process of the program that uses it."""

import contextlib
import logging
import os
import socket
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Mapping, Sequence
from typing import Self

from openenv.core.errors import ServerUnreachable

log = logging.getLogger(__name__)

_STOP_TIMEOUT_S = 5.0


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
        self._command = [sys.executable, "-m", module, *args]
        self._env_vars = {**os.environ, **(env_vars or {})}
        self._start_timeout_s = start_timeout_s
        self._process: subprocess.Popen[bytes] | None = None
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  closed by stop()
        self.base_url = ""

    def start(self) -> Self:
        """Start the server and wait until it is healthy. Raises ServerUnreachable, with its output, when it is not."""
        port = _free_port()
        self.base_url = f"http://127.0.0.1:{port}"
        command = [*self._command, "--host", "127.0.0.1", "--port", str(port)]
        self._process = subprocess.Popen(
            command,
            stdout=self._log,
            stderr=subprocess.STDOUT,
            env=self._env_vars,
            start_new_session=True,  # a terminal's Ctrl-C is for the program, which stops the server when it is done
        )
        log.info("started %s: pid=%d url=%s", self._command[2], self._process.pid, self.base_url)
        try:
            wait_until_healthy(self.base_url, self._process, self._start_timeout_s)
        except ServerUnreachable as error:
            said = self._output()
            self.stop()
            raise ServerUnreachable(f"{error}\n{said}") from None
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

    def stop(self) -> None:
        """End the server: ask first, insist after five seconds. Stopping twice does nothing."""
        process, self._process = self._process, None
        if process is not None:
            process.terminate()
            try:
                process.wait(_STOP_TIMEOUT_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        self._log.close()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _output(self) -> str:
        self._log.seek(0)
        return self._log.read().decode(errors="replace")[-4000:]


def wait_until_healthy(base_url: str, process: "subprocess.Popen[bytes]", timeout_s: float) -> None:
    """Return when the server that `process` runs answers. Raises ServerUnreachable when it ends, or takes too long."""
    deadline = time.monotonic() + timeout_s
    while time.monotonic() < deadline:
        if process.poll() is not None:
            raise ServerUnreachable(f"{_command_of(process)} ended with code {process.returncode}")
        with contextlib.suppress(OSError), urllib.request.urlopen(f"{base_url}/health", timeout=1):
            return
        time.sleep(0.05)
    raise ServerUnreachable(f"{_command_of(process)} was not healthy in {timeout_s:g} s")


def _command_of(process: "subprocess.Popen[bytes]") -> str:
    return " ".join(map(str, process.args)) if isinstance(process.args, list) else str(process.args)


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
