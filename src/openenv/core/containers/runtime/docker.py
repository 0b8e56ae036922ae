"""Providers for Docker: one container on the local engine, or replicas behind the load balancer of a swarm."""

import contextlib
import shlex
from collections.abc import Iterator
from typing import Any

from openenv.core.containers.runtime.subprocess_tool import LABEL, PORT_IN_CONTAINER, ToolProvider, options, run_tool
from openenv.core.containers.server_process import free_port, wait_until_ready
from openenv.core.errors import ContainerFault, NotReady

REMEDY = "Is Docker installed, is its engine running (`docker info`), and may this user access it?"

_START_TIMEOUT_S = 900.0  # the image may have to be pulled
_GRACE_S = 10


class LocalDockerProvider(ToolProvider):
    """Runs one container with the `docker` command line, reachable from this machine only.

    Example:
        with EchoEnv.from_docker_image("echo-env:latest") as env:  # makes one of these
            env.reset()
    """

    def __init__(self) -> None:
        """Raises ContainerFault if the Docker engine is unavailable."""
        run_tool("docker", "version", remedy=REMEDY, timeout_s=20)

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        """Run `image`, which serves on its port 8000, and return its base URL. Raises ContainerFault if that fails.

        port: on the loopback interface; None lets Docker choose a free one. Further keywords are options of
        `docker run`, such as memory="2g" or volume=["/data:/data:ro"].
        """
        with self._starting(image) as name:
            run_tool(
                "docker", "run", "--detach", f"--name={name}", f"--label={LABEL}",
                f"--publish=127.0.0.1:{port or ''}:{PORT_IN_CONTAINER}",
                *(f"--env={key}={value}" for key, value in (env_vars or {}).items()), *options(kwargs), image,
                remedy=f"{REMEDY} Is there an image {image!r} (`docker images`)?", timeout_s=_START_TIMEOUT_S,
            )  # fmt: skip
            published = run_tool("docker", "port", name, f"{PORT_IN_CONTAINER}/tcp", remedy=self._exit_hint())
        return f"http://127.0.0.1:{published.splitlines()[0].rpartition(':')[2]}"

    def stop_container(self) -> None:
        """Stop and remove the container after up to ten seconds. Raises ContainerFault if it cannot be removed."""
        if self._name is None:
            return
        with contextlib.suppress(ContainerFault):  # it may not be running; the removal decides
            run_tool("docker", "stop", "-t", str(_GRACE_S), self._name, remedy=REMEDY, timeout_s=_GRACE_S + 20)
        try:
            run_tool("docker", "rm", "--force", "--volumes", self._name, remedy=REMEDY)
        except ContainerFault as error:
            if "no such container" not in str(error).lower():
                raise
        self._name = None

    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        """Wait until the server is healthy. Raises NotReady, with the container's log, if it ends or times out."""
        try:
            wait_until_ready(base_url, timeout_s, self._ended)
        except NotReady as error:
            raise NotReady(f"{error}\n{self._log()}".rstrip()) from None

    def _ended(self) -> str | None:
        if self._name is None:
            return None
        state = run_tool("docker", "inspect", "--format={{.State.Status}}", self._name, remedy=REMEDY)
        return f"the container {self._name} has {state}" if state in ("exited", "dead") else None

    def _exit_hint(self) -> str:
        return f"The container {self._name} may have exited immediately: run the image with `docker run`."

    def _log(self) -> str:
        if self._name is None:
            return ""
        try:
            return run_tool("docker", "logs", "--tail=50", self._name, remedy=REMEDY, errors_too=True)
        except ContainerFault as error:
            return str(error)


_CREATE_TIMEOUT_S = 120.0
_KEYWORDS = {"replicas", "cpu_limit", "memory_limit", "constraints", "labels", "command"}


class DockerSwarmProvider(ToolProvider):
    """Runs a Swarm service. A connection stays with one replica, but a reconnecting client may reach another.

    Another replica does not have the client's session (SessionGone): use short episodes, or replicas=1.
    """

    def __init__(self, *, auto_init_swarm: bool = True, overlay_network: str | None = None) -> None:
        """Raises ContainerFault if there is no Docker engine, or no swarm and `auto_init_swarm` is False.

        overlay_network: the network of the service, created if it does not exist.
        """
        self._overlay_network = overlay_network
        state = run_tool("docker", "info", "--format={{.Swarm.LocalNodeState}}", remedy=REMEDY, timeout_s=20)
        if state != "active":
            if not auto_init_swarm:
                raise ContainerFault(f"this Docker engine is in no swarm (state {state!r}): run `docker swarm init`")
            run_tool("docker", "swarm", "init", remedy="`docker swarm init --advertise-addr ADDRESS` may be needed.")
        if overlay_network:
            self._make_network(overlay_network)

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        """Create a service of `image` and return its base URL. Raises ContainerFault if Docker refuses.

        Keywords: replicas (1 or more, default 2), cpu_limit, memory_limit, constraints, labels (a dictionary), command
        (a string or a list). Raises ValueError for others.
        """
        unknown = kwargs.keys() - _KEYWORDS
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))}: not among {', '.join(sorted(_KEYWORDS))}")
        port = free_port() if port is None else port
        command = kwargs.get("command") or ()
        command = shlex.split(command) if isinstance(command, str) else command
        with self._starting(image) as name:
            run_tool(
                "docker", "service", "create", "--detach", f"--name={name}", f"--label={LABEL}",
                f"--publish=published={port},target={PORT_IN_CONTAINER}",
                *self._service_options(env_vars or {}, kwargs), image, *command,
                remedy=REMEDY, timeout_s=_CREATE_TIMEOUT_S,
            )  # fmt: skip
        return f"http://127.0.0.1:{port}"

    def stop_container(self) -> None:
        """Remove the service, not the swarm. Raises ContainerFault if it cannot be removed."""
        if self._name is not None:
            run_tool("docker", "service", "rm", self._name, remedy=REMEDY)
            self._name = None

    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        """Wait until one replica is healthy; others may still be starting. Raises NotReady after `timeout_s`."""
        wait_until_ready(base_url, timeout_s)

    def _service_options(self, env_vars: dict[str, str], keywords: dict[str, Any]) -> Iterator[str]:
        replicas = int(keywords.get("replicas", 2))
        if replicas < 1:
            raise ValueError(f"replicas={replicas}: a service has 1 or more")
        yield f"--replicas={replicas}"
        if self._overlay_network:
            yield f"--network={self._overlay_network}"
        yield from (f"--env={key}={value}" for key, value in env_vars.items())
        if keywords.get("cpu_limit") is not None:
            yield f"--limit-cpu={keywords['cpu_limit']}"
        if keywords.get("memory_limit") is not None:
            yield f"--limit-memory={keywords['memory_limit']}"
        yield from (f"--constraint={constraint}" for constraint in keywords.get("constraints") or ())
        yield from (f"--label={key}={value}" for key, value in (keywords.get("labels") or {}).items())

    def _make_network(self, network: str) -> None:
        existing = run_tool("docker", "network", "ls", "--format={{.Name}}", remedy=REMEDY).splitlines()
        if network not in existing:
            run_tool("docker", "network", "create", "--driver=overlay", "--attachable", network, remedy=REMEDY)
