"""A provider for Podman: one isolated container, through the API that is compatible with Docker's."""

import os

from openenv.core.containers.engine.connection import Engine
from openenv.core.containers.runtime.engine_provider import EngineProvider

REMEDY = "Does its service run? `systemctl start podman.socket`, or `podman system service --time=0 URL`"


class PodmanProvider(EngineProvider):
    """Runs one container of Podman, like `LocalDockerProvider`.

    Example:
        with EchoEnv.from_docker_image("echo-env:latest", provider=PodmanProvider()) as env:
            env.reset()
    """

    def __init__(self, url: str | None = None) -> None:
        """url: the socket of its service, such as unix:///run/podman/podman.sock; None: the usual one of this user.

        Raises ContainerFault if the extra `docker` is missing, or no service answers there.
        """
        super().__init__(Engine("Podman", url or _usual_socket(), REMEDY))


def _usual_socket() -> str:
    folder = "/run" if os.geteuid() == 0 else f"/run/user/{os.geteuid()}"
    return f"unix://{folder}/podman/podman.sock"
