"""The provider classes under the module name that the published package has them in."""

from openenv.core.containers.runtime.base import ContainerProvider, RuntimeProvider
from openenv.core.containers.runtime.docker import LocalDockerProvider
from openenv.core.containers.runtime.kubernetes import KubernetesProvider
from openenv.core.containers.runtime.swarm import DockerSwarmProvider

__all__ = ["ContainerProvider", "DockerSwarmProvider", "KubernetesProvider", "LocalDockerProvider", "RuntimeProvider"]
