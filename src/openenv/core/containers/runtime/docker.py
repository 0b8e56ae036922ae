"""One container of the local Docker engine."""

import contextlib
from typing import Any

from openenv.core.containers.readiness import wait_until_ready
from openenv.core.containers.runtime.command_line import LABEL, PORT_IN_CONTAINER, options, run_tool, unique_name
from openenv.core.containers.runtime.providers import ContainerProvider
from openenv.core.errors import ContainerFault, NotReady

REMEDY = "Is Docker installed, is its engine running (`docker info`), and may this user talk to it?"

_START_TIMEOUT_S = 900.0  # the image may have to be pulled
_GRACE_S = 10


class LocalDockerProvider(ContainerProvider):
    """Runs a container with the `docker` command line, reachable from this machine only.

    Example:
        with EchoEnv.from_docker_image("echo-env:latest") as env:  # makes one of these
            env.reset()
    """

    def __init__(self) -> None:
        """Raises ContainerFault when there is no Docker engine to talk to."""
        run_tool("docker", "version", remedy=REMEDY, timeout_s=20)
        self._name: str | None = None

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        """Run `image`, which serves on its port 8000, and return its base URL. Raises ContainerFault when it fails.

        port: on the loopback interface; None lets Docker choose a free one. Further keywords are options of
        `docker run`, such as memory="2g" or volume=["/data:/data:ro"].
        """
        if self._name is not None:
            raise ContainerFault(f"this provider runs {self._name} already: stop_container() first")
        self._name = unique_name(image)
        try:
            run_tool(
                "docker", "run", "--detach", f"--name={self._name}", f"--label={LABEL}",
                f"--publish=127.0.0.1:{port or ''}:{PORT_IN_CONTAINER}",
                *(f"--env={key}={value}" for key, value in (env_vars or {}).items()), *options(kwargs), image,
                remedy=f"{REMEDY} Is there an image {image!r} (`docker images`)?", timeout_s=_START_TIMEOUT_S,
            )  # fmt: skip
            published = run_tool("docker", "port", self._name, f"{PORT_IN_CONTAINER}/tcp", remedy=self._why_gone())
        except BaseException:
            with contextlib.suppress(ContainerFault):  # what failed first is what the caller must hear
                self.stop_container()
            self._name = None
            raise
        return f"http://127.0.0.1:{published.splitlines()[0].rpartition(':')[2]}"

    def stop_container(self) -> None:
        """Stop and remove the container: it has ten seconds to finish. Raises ContainerFault when it stays."""
        if self._name is None:
            return
        with contextlib.suppress(ContainerFault):  # it may not run at all; what matters is that it can be removed
            run_tool("docker", "stop", "-t", str(_GRACE_S), self._name, remedy=REMEDY, timeout_s=_GRACE_S + 20)
        try:
            run_tool("docker", "rm", "--force", "--volumes", self._name, remedy=REMEDY)
        except ContainerFault as error:
            if "no such container" not in str(error).lower():
                raise
        self._name = None

    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        """Return when the server answers. Raises NotReady, with the container's log, when it ends or takes too long."""
        try:
            wait_until_ready(base_url, timeout_s, self._ended)
        except NotReady as error:
            raise NotReady(f"{error}\n{self._log()}".rstrip()) from None

    def _ended(self) -> str | None:
        if self._name is None:
            return None
        state = run_tool("docker", "inspect", "--format={{.State.Status}}", self._name, remedy=REMEDY)
        return f"the container {self._name} has {state}" if state in ("exited", "dead") else None

    def _why_gone(self) -> str:
        return f"The container may have ended at once: `docker logs {self._name}` in a run without openenv tells."

    def _log(self) -> str:
        if self._name is None:
            return ""
        try:
            return run_tool("docker", "logs", "--tail=50", self._name, remedy=REMEDY, errors_too=True)
        except ContainerFault as error:
            return str(error)
