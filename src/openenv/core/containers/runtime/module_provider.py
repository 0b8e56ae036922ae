"""A server module of this Python's own packages, as a process of this machine."""

from typing import Any

from openenv.core.containers.local_process import ServerProcess, free_port, module_command
from openenv.core.containers.runtime.providers import RuntimeProvider
from openenv.core.errors import ContainerFault, NotReady


class ModuleProvider(RuntimeProvider):
    """Runs a module that takes `--host` and `--port`, as those of the bundled environments do."""

    def __init__(self, module: str) -> None:
        self._module = module
        self._process: ServerProcess | None = None

    def start(self, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any) -> str:
        """Start the server on the loopback interface and return its base URL."""
        if self._process is not None:
            raise ContainerFault("this provider runs a server already: stop() first")
        port = free_port() if port is None else port
        self._process = ServerProcess(module_command(self._module, port), f"http://127.0.0.1:{port}", env_vars)
        return self._process.base_url

    def stop(self) -> None:
        """Stop the server."""
        process, self._process = self._process, None
        if process is not None:
            process.stop()

    def wait_for_ready(self, timeout_s: float = 30.0) -> None:
        """Return when the server answers. Raises NotReady, with its output, when it ends or takes too long."""
        if self._process is None:
            raise NotReady("no server runs: start() first")
        self._process.wait_until_healthy(timeout_s)
