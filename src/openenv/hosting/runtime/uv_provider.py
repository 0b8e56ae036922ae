"""A provider for uv: serves an environment's project with `uv run` on this machine."""

import contextlib
import os
import tempfile
from typing import Any

from openenv.core.client.providers import RuntimeProvider
from openenv.core.errors import ContainerFault, NotReady
from openenv.hosting.runtime.subprocess_tool import run_tool
from openenv.hosting.server_process import ServerProcess, free_port

GIT_URL_PREFIX = "git+"
_UV_REMEDY = "Install uv: https://docs.astral.sh/uv"


class UVProvider(RuntimeProvider):
    """Serves a uv project with its own dependencies. The code runs as this user, without isolation.

    Example:
        with MyEnv(provider=UVProvider(project_path="my_env")) as env:
            env.reset()
    """

    def __init__(
        self,
        *,
        project_path: str,
        app: str = "server.app:app",
        host: str = "127.0.0.1",
        reload: bool = False,
        env_vars: dict[str, str] | None = None,
        context_timeout_s: float = 60.0,
    ) -> None:
        """
        Args:
            project_path: a folder with a pyproject.toml, or `git+URL`, which is cloned.
            app: what uvicorn serves.
            context_timeout_s: for cloning, and until the server is healthy.

        Raises:
            ContainerFault: if uv is not installed.
        """
        run_tool("uv", "--version", remedy=_UV_REMEDY, timeout_s=20)
        self.project_path = project_path if project_path.startswith(GIT_URL_PREFIX) else os.path.abspath(project_path)
        self.app = app
        self.host = host
        self.reload = reload
        self.env_vars = env_vars
        self.context_timeout_s = context_timeout_s
        self._process: ServerProcess | None = None
        self._clone: tempfile.TemporaryDirectory[str] | None = None

    def start(
        self, port: int | None = None, env_vars: dict[str, str] | None = None, workers: int = 1, **kwargs: Any
    ) -> str:
        """Start the server and return its base URL. Raises ContainerFault if it runs already or cannot be cloned.

        env_vars: override those of the constructor. workers: with more than 1, a reconnecting client may reach a
        process that does not have its session.
        """
        if self._process is not None and self._process.is_running:
            raise ContainerFault("this provider already runs a server: stop() it first")
        self.stop()
        port = free_port() if port is None else port
        here = "127.0.0.1" if self.host in ("0.0.0.0", "::") else self.host
        with contextlib.ExitStack() as on_error:
            on_error.callback(self.stop)
            command = ["uv", "run", "--isolated", "--project", self._project(), "--", "uvicorn", self.app]
            command += ["--host", self.host, "--port", str(port), "--workers", str(workers)]
            command += ["--reload"] if self.reload else []
            variables = {**(self.env_vars or {}), **(env_vars or {})}
            self._process = ServerProcess(command, f"http://{here}:{port}", variables)
            on_error.pop_all()
        return self._process.base_url

    def stop(self) -> None:
        """Stop the server and remove the clone. Does nothing without one."""
        process, self._process = self._process, None
        clone, self._clone = self._clone, None
        try:
            if process is not None:
                process.stop()
        finally:
            if clone is not None:
                clone.cleanup()

    def wait_for_ready(self, timeout_s: float | None = None) -> None:
        """Wait until the server is healthy. Raises NotReady, with its output, after `timeout_s` (context_timeout_s)."""
        if self._process is None:
            raise NotReady("no server runs: start() it first")
        self._process.wait_until_healthy(self.context_timeout_s if timeout_s is None else timeout_s)

    @property
    def base_url(self) -> str:
        """URL of the server. Raises RuntimeError if none was started."""
        if self._process is None:
            raise RuntimeError("no server runs: start() it first")
        return self._process.base_url

    def _project(self) -> str:
        """The project's folder on this machine; for a git URL, a new clone."""
        if not self.project_path.startswith(GIT_URL_PREFIX):
            return self.project_path
        self._clone = tempfile.TemporaryDirectory(prefix="openenv-clone-")
        url = self.project_path.removeprefix(GIT_URL_PREFIX)
        remedy, limit_s = f"Is git installed, and does {url} exist?", self.context_timeout_s
        run_tool("git", "clone", "--depth=1", "--", url, self._clone.name, remedy=remedy, timeout_s=limit_s)
        return self._clone.name
