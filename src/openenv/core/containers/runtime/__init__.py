"""Providers, which run an environment's server: Docker, Docker Swarm, Kubernetes, or uv on this machine."""

from openenv.core.containers.runtime.base import ContainerProvider, RuntimeProvider
from openenv.core.containers.runtime.docker import DockerSwarmProvider, LocalDockerProvider
from openenv.core.containers.runtime.kubernetes import KubernetesProvider
from openenv.core.containers.runtime.uv_provider import UVProvider

__all__ = [
    "ContainerProvider",
    "DockerSwarmProvider",
    "KubernetesProvider",
    "LocalDockerProvider",
    "RuntimeProvider",
    "UVProvider",
]
