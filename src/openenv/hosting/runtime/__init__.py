"""Providers, which run an environment's server: Docker, Docker Swarm, Podman, Kubernetes, or uv on this machine."""

from openenv.core.client.providers import ContainerProvider, RuntimeProvider
from openenv.hosting.engine.isolation import ContainerLimits
from openenv.hosting.runtime.docker import LocalDockerProvider
from openenv.hosting.runtime.kubernetes import KubernetesProvider
from openenv.hosting.runtime.podman import PodmanProvider
from openenv.hosting.runtime.swarm import DockerSwarmProvider
from openenv.hosting.runtime.uv_provider import UVProvider

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
