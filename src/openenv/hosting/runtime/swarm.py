"""A provider for Docker Swarm: replicas of one image behind the load balancer of a swarm."""

import contextlib
import shlex
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
        self._overlay_network = overlay_network
        self._service: Any = None
        self._engine = Engine("Docker", None, REMEDY)
        with self._engine.errors("joining a swarm"):
            state = self._engine.client.info()["Swarm"]["LocalNodeState"]
            if state != "active":
                if not auto_init_swarm:
                    raise ContainerFault(
                        f"this Docker engine is in no swarm (state {state!r}): run `docker swarm init`"
                    )
                with self._engine.errors("`docker swarm init`, which may need --advertise-addr ADDRESS,"):
                    self._engine.client.swarm.init()
            if overlay_network and not self._engine.client.networks.list(names=[overlay_network]):
                self._engine.client.networks.create(overlay_network, driver="overlay", attachable=True)

    def start_container(
        self, image: str, port: int | None = None, env_vars: dict[str, str] | None = None, **kwargs: Any
    ) -> str:
        """Create a service of `image` and return its base URL. Raises ContainerFault if Docker refuses.

        Keywords: replicas (1 or more, default 2), cpu_limit (processors), memory_limit (bytes, or such as 1g),
        constraints, labels (a dictionary), command (a string or a list). Raises ValueError for others.
        """
        if self._service is not None:
            raise ContainerFault(f"this provider already runs {self._service.name}: stop_container() first")
        unknown = kwargs.keys() - _KEYWORDS
        if unknown:
            raise ValueError(f"{', '.join(sorted(unknown))}: not among {', '.join(sorted(_KEYWORDS))}")
        port = free_port() if port is None else port
        options = _service_options(port, kwargs)
        if self._overlay_network:
            options["networks"] = [self._overlay_network]
        with self._engine.errors(f"creating a service of {image}"):
            self._service = self._engine.client.services.create(
                image, name=unique_name(image), env=[f"{key}={value}" for key, value in (env_vars or {}).items()],
                **options,
            )  # fmt: skip
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

    def logs(self, tail: int = 50) -> str:
        """The last lines of the output of all replicas. Raises ContainerFault."""
        if self._service is None:
            raise ContainerFault("no service runs: start_container() first")
        with self._engine.errors("reading the logs"):
            lines = self._service.logs(stdout=True, stderr=True, tail=tail)
            return b"".join(lines).decode(errors="replace")

    def close(self) -> None:
        """Close the connections to the engine."""
        self._engine.close()


def _service_options(port: int, keywords: dict[str, Any]) -> dict[str, Any]:
    """The SDK's keywords for a service."""
    # an extra: `Engine` has found it
    from docker.types import EndpointSpec, Resources, ServiceMode
    from docker.utils import parse_bytes

    replicas = int(keywords.get("replicas", 2))
    if replicas < 1:
        raise ValueError(f"replicas={replicas}: a service has 1 or more")
    cpus, memory = keywords.get("cpu_limit"), keywords.get("memory_limit")
    limits = Resources(
        cpu_limit=None if cpus is None else int(float(cpus) * 1e9),
        mem_limit=None if memory is None else parse_bytes(memory),
    )
    command = keywords.get("command")
    return {
        "mode": ServiceMode("replicated", replicas=replicas),
        "endpoint_spec": EndpointSpec(ports={port: PORT_IN_CONTAINER}),
        "resources": limits,
        "constraints": list(keywords.get("constraints") or ()),
        "labels": {LABEL: "1", **(keywords.get("labels") or {})},
        "args": shlex.split(command) if isinstance(command, str) else command,
    }
