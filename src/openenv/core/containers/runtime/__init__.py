"""Providers, which run an environment's server: Docker, Docker Swarm, Podman, Kubernetes, or uv on this machine."""

from openenv.core.containers.engine.isolation import ContainerLimits
from openenv.core.containers.runtime.base import ContainerProvider, RuntimeProvider
from openenv.core.containers.runtime.docker import LocalDockerProvider
from openenv.core.containers.runtime.kubernetes import KubernetesProvider
from openenv.core.containers.runtime.podman import PodmanProvider
from openenv.core.containers.runtime.swarm import DockerSwarmProvider
from openenv.core.containers.runtime.uv_provider import UVProvider

__all__ = [
    "ContainerLimits",
    "ContainerProvider",
    "DockerSwarmProvider",
    "KubernetesProvider",
    "LocalDockerProvider",
    "PodmanProvider",
    "RuntimeProvider",
    "UVProvider",
]
