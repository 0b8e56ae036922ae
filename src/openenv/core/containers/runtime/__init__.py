"""Who runs an environment's server: Docker, Docker Swarm, Kubernetes, or a process of this machine."""

from openenv.core.containers.runtime.docker import LocalDockerProvider
from openenv.core.containers.runtime.kubernetes import KubernetesProvider
from openenv.core.containers.runtime.providers import ContainerProvider, RuntimeProvider
from openenv.core.containers.runtime.swarm import DockerSwarmProvider
from openenv.core.containers.runtime.uv_provider import UVProvider

__all__ = [
    "ContainerProvider",
    "DockerSwarmProvider",
    "KubernetesProvider",
    "LocalDockerProvider",
    "RuntimeProvider",
    "UVProvider",
]
