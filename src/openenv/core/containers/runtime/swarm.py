"""Replicas of one image behind Docker Swarm's load balancer."""

import contextlib
import shlex
from collections.abc import Iterator
from typing import Any

from openenv.core.containers.local_process import free_port
from openenv.core.containers.readiness import wait_until_ready
from openenv.core.containers.runtime.command_line import LABEL, PORT_IN_CONTAINER, run_tool, unique_name
from openenv.core.containers.runtime.docker import REMEDY
from openenv.core.containers.runtime.providers import ContainerProvider
from openenv.core.errors import ContainerFault

_START_TIMEOUT_S = 120.0
_KEYWORDS = {"replicas", "cpu_limit", "memory_limit", "constraints", "labels", "command"}


class DockerSwarmProvider(ContainerProvider):
    """Runs a Swarm service. A connection stays with one replica; a client that has lost its own may meet another.

    That other replica does not know the client's session (SessionGone): let episodes be short, or use replicas=1.
    """

    def __init__(self, *, auto_init_swarm: bool = True, overlay_network: str | None = None) -> None:
        """Raises ContainerFault when there is no Docker engine, or no swarm and `auto_init_swarm` is False.

        overlay_network: the network of the service, made when it is not there.
        """
        self._name: str | None = None
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
        """Create a service of `image` and return its base URL. Raises ContainerFault when Docker refuses.

        Keywords: replicas (1 or more, default 2), cpu_limit, memory_limit, constraints, labels (a dictionary), command
        (a string or a list). Raises ValueError for others.
        """
        unknown = kwargs.keys() - _KEYWORDS
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))}: not among {', '.join(sorted(_KEYWORDS))}")
        if self._name is not None:
            raise ContainerFault(f"this provider runs {self._name} already: stop_container() first")
        port = free_port() if port is None else port
        self._name = unique_name(image)
        command = kwargs.get("command") or ()
        command = shlex.split(command) if isinstance(command, str) else command
        try:
            run_tool(
                "docker", "service", "create", "--detach", f"--name={self._name}", f"--label={LABEL}",
                f"--publish=published={port},target={PORT_IN_CONTAINER}",
                *self._service_options(env_vars or {}, kwargs), image, *command,
                remedy=REMEDY, timeout_s=_START_TIMEOUT_S,
            )  # fmt: skip
        except BaseException:
            with contextlib.suppress(ContainerFault):  # as a rule there is no service yet
                self.stop_container()
            self._name = None
            raise
        return f"http://127.0.0.1:{port}"

    def stop_container(self) -> None:
        """Remove the service; the swarm goes on. Raises ContainerFault when it stays."""
        if self._name is not None:
            run_tool("docker", "service", "rm", self._name, remedy=REMEDY)
            self._name = None

    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        """Return when one replica answers; others may still start. Raises NotReady after `timeout_s`."""
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
