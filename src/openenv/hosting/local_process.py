"""An environment's server module as a child process, for tests, tools and clients on this machine."""

import asyncio
import contextlib
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Self
from urllib.parse import urlsplit

from openenv.core.client.providers import RuntimeProvider
from openenv.core.errors import ContainerFault, NotReady
from openenv.hosting.server_process import ServerProcess, free_port, module_command


class LocalServer(RuntimeProvider):
    """Runs a server module with this Python on the loopback interface. The module takes `--host` and `--port`.

    The server ends with this process. As a provider, `EnvClient(provider=LocalServer(...))` starts and stops it.

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
        """args: the module's arguments. start_timeout_s: seconds until the server must be healthy."""
        self._module, self._args = module, args
        self._env_vars = env_vars
        self._start_timeout_s = start_timeout_s
        self._process: ServerProcess | None = None
        self.base_url = ""

    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        """Start the server without waiting for it, and return its base URL. Raises ContainerFault if it runs already.

        port: None for an unused one. env_vars: added to those of the constructor.
        """
        if self._process is not None:
            raise ContainerFault("this provider already runs a server: stop() it first")
        port = free_port() if port is None else port
        self.base_url = f"http://127.0.0.1:{port}"
        variables = {**(self._env_vars or {}), **(env_vars or {})}
        self._process = ServerProcess(module_command(self._module, port, self._args), self.base_url, variables)
        return self.base_url

    def restart(self) -> None:
        """Start the server again at its address, which no other program gets meanwhile, without waiting for it."""
        self._running().keeps_port = True
        self.stop()
        self.start(urlsplit(self.base_url).port)

    def wait_for_ready(self, timeout_s: float | None = None) -> None:
        """Wait until the server is healthy. Raises NotReady, with its output, if it ends or takes too long.

        timeout_s: None for `start_timeout_s`.
        """
        if self._process is None:
            raise NotReady("no server runs: start() it first")
        self._process.wait_until_healthy(self._start_timeout_s if timeout_s is None else timeout_s)

    def launch(self) -> Self:
        """Start the server and wait until it is healthy. Raises NotReady, with its output, if it fails."""
        self.start()
        with self._stopped_on_error():
            self.wait_for_ready()
        return self

    @property
    def pid(self) -> int:
        """The server's process id. Raises RuntimeError if no server runs."""
        return self._running().pid

    def kill(self) -> None:
        """End the server at once, with all that it has started. It counts as one that has ended by itself."""
        self._running().kill()

    def output(self) -> str:
        """The server's output, including its log. Raises RuntimeError if no server runs."""
        return self._running().output()

    def wait(self, timeout_s: float | None) -> int:
        """Wait for the server to end by itself and return its exit code. Raises TimeoutExpired, RuntimeError.

        timeout_s: None for as long as it runs.
        """
        return self._running().wait(timeout_s)

    def stop(self) -> None:
        """Stop the server: SIGTERM, then SIGKILL after five seconds. A second call does nothing."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()

    def __enter__(self) -> Self:
        return self.launch()

    async def __aenter__(self) -> Self:
        """As `launch`, without holding up the event loop. A task that is cancelled meanwhile leaves no server."""
        self.start()
        with self._stopped_on_error():
            await asyncio.to_thread(self.wait_for_ready)
        return self

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.stop)

    @contextlib.contextmanager
    def _stopped_on_error(self) -> Iterator[None]:
        with contextlib.ExitStack() as on_error:
            on_error.callback(self.stop)
            yield
            on_error.pop_all()

    def _running(self) -> ServerProcess:
        if self._process is None:
            raise RuntimeError("no server runs: start() it first")
        return self._process
