"""The provider classes under the module name that the published package has them in."""

from openenv.core.client.providers import ContainerProvider, RuntimeProvider
from openenv.hosting.runtime.docker import LocalDockerProvider
from openenv.hosting.runtime.kubernetes import KubernetesProvider
from openenv.hosting.runtime.swarm import DockerSwarmProvider

__all__ = ["ContainerProvider", "DockerSwarmProvider", "KubernetesProvider", "LocalDockerProvider", "RuntimeProvider"]
