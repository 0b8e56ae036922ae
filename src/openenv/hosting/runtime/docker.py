"""A provider for Docker: one isolated container on the local engine."""

from openenv.hosting.engine.connection import Engine
from openenv.hosting.runtime.container_engine import EngineProvider

REMEDY = "Is Docker installed, is its engine running (`docker info`), and may this user access it?"


class LocalDockerProvider(EngineProvider):
    """Runs one container of the Docker engine of this machine, at DOCKER_HOST or its usual socket.

    The container is isolated (`layers` says how), reachable from this machine only, and removed when this process ends,
    however it ends.

    Example:
        with EchoEnv.from_docker_image("echo-env:latest") as env:  # makes one of these
            env.reset()
    """

    def __init__(self) -> None:
        """Raises ContainerFault if the extra `docker` is missing, or no engine of this machine answers."""
        super().__init__(Engine("Docker", None, REMEDY))
