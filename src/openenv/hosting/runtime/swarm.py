"""A provider for Docker Swarm, as the published package has one: replicas of one image behind a load balancer."""

import contextlib
import shlex
from collections.abc import Mapping, Sequence
from typing import Any

from openenv.core.client.providers import ContainerProvider
from openenv.core.errors import ContainerFault
from openenv.hosting.engine.connection import Engine
from openenv.hosting.engine.owner import LABEL
from openenv.hosting.runtime.docker import REMEDY
from openenv.hosting.runtime.subprocess_tool import PORT_IN_CONTAINER, unique_name
from openenv.hosting.server_process import free_port, wait_until_ready

_KEYWORDS = {"replicas", "cpu_limit", "memory_limit", "constraints", "labels", "command"}


class DockerSwarmProvider(ContainerProvider):
    """Runs a Swarm service. A connection stays with one replica, but a reconnecting client may reach another.

    Another replica does not have the client's session (SessionGone): use short episodes, or replicas=1. A swarm
    publishes its port on all addresses of its machines, and isolates containers as Docker does by default.
    """

    def __init__(self, *, auto_init_swarm: bool = True, overlay_network: str | None = None) -> None:
        """Raises ContainerFault if there is no Docker engine, or no swarm and `auto_init_swarm` is False.

        overlay_network: the network of the service, created if it does not exist.
        """
        self._networks = [overlay_network] if overlay_network else []
        self._service: Any = None
        self._engine = Engine("Docker", None, REMEDY)
        with self._engine.errors("joining a swarm"):
            client = self._engine.client
            if client.info()["Swarm"]["LocalNodeState"] != "active":
                if not auto_init_swarm:
                    raise ContainerFault("this Docker engine is in no swarm: run `docker swarm init`")
                client.swarm.init()
            if self._networks and not client.networks.list(names=self._networks):
                client.networks.create(overlay_network, driver="overlay", attachable=True)

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        """Create a service of `image` and return its base URL. Raises ContainerFault if Docker refuses.

        Keywords: replicas (1 or more, default 2), cpu_limit (processors), memory_limit (bytes, or such as 1g),
        constraints, labels (a dictionary), command (a string or a list). Raises ValueError for others.
        """
        if self._service is not None:
            raise ContainerFault(f"this provider already runs {self._service.name}: stop_container() first")
        if unknown := kwargs.keys() - _KEYWORDS:
            raise ValueError(f"{', '.join(sorted(unknown))}: not among {', '.join(sorted(_KEYWORDS))}")
        port = free_port() if port is None else port
        options = _service_options(port, **kwargs)
        environment = [f"{key}={value}" for key, value in (env_vars or {}).items()]
        with self._engine.errors(f"creating a service of {image}"):
            self._service = self._engine.client.services.create(
                image, name=unique_name(image), env=environment, networks=self._networks, **options
            )
        return f"http://127.0.0.1:{port}"

    def stop_container(self) -> None:
        """Remove the service, not the swarm. Raises ContainerFault if it cannot be removed."""
        # an extra: `Engine` has found it
        from docker.errors import NotFound

        if self._service is not None:
            with self._engine.errors("removing a service"), contextlib.suppress(NotFound):
                self._service.remove()
            self._service = None

    def wait_for_ready(self, base_url: str, timeout_s: float = 30.0) -> None:
        """Wait until one replica is healthy; others may still be starting. Raises NotReady after `timeout_s`."""
        wait_until_ready(base_url, timeout_s)

    def close(self) -> None:
        """Close the connections to the engine."""
        self._engine.close()


def _service_options(
    port: int,
    *,
    replicas: int = 2,
    cpu_limit: float | None = None,
    memory_limit: int | str | None = None,
    constraints: Sequence[str] = (),
    labels: Mapping[str, str] | None = None,
    command: str | Sequence[str] | None = None,
) -> dict[str, Any]:
    """The SDK's keywords for a service."""
    # an extra: `Engine` has found it
    from docker.types import EndpointSpec, Resources, ServiceMode
    from docker.utils import parse_bytes

    if replicas < 1:
        raise ValueError(f"replicas={replicas}: a service has 1 or more")
    nano_cpus = None if cpu_limit is None else int(float(cpu_limit) * 1e9)
    return {
        "mode": ServiceMode("replicated", replicas=replicas),
        "endpoint_spec": EndpointSpec(ports={port: PORT_IN_CONTAINER}),
        "resources": Resources(
            cpu_limit=nano_cpus, mem_limit=None if memory_limit is None else parse_bytes(memory_limit)
        ),
        "constraints": list(constraints),
        "labels": {LABEL: "1", **(labels or {})},
        "args": shlex.split(command) if isinstance(command, str) else command,
    }
