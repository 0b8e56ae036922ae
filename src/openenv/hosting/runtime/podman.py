"""A provider for Podman: one isolated container, through the API that is compatible with Docker's."""

import os
import tempfile
from typing import Any

from openenv.core.errors import ContainerFault
from openenv.hosting.engine.connection import Engine
from openenv.hosting.runtime.docker import EngineProvider

REMEDY = "Does its service run? `systemctl start podman.socket`, or `podman system service --time=0 URL`"

_USER_PROCESSES = 4096


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
        super().__init__(_Podman("Podman", url or _usual_socket(), REMEDY))

    def _engine_options(self) -> dict[str, Any]:
        """Podman's own limit of a user's processes is higher than an engine without all rights may set."""
        # an extra: `Engine` has found it
        from docker.types import Ulimit

        return {"ulimits": [Ulimit(name="nproc", soft=_USER_PROCESSES, hard=_USER_PROCESSES)]}


class _Podman(Engine):
    """Podman's service. It reads a profile from a file."""

    _profile: Any = None

    def runtime_arguments(self, runtime: str) -> list[str]:
        """Raises ContainerFault: what a runtime would not enforce cannot be known."""
        raise ContainerFault(f"Podman does not say how it calls its runtimes, such as {runtime}. Leave runtime out")

    def profile_argument(self, profile: str) -> str:
        """The path of a file with the profile, which is removed with this object."""
        file = tempfile.NamedTemporaryFile("w", encoding="utf-8", prefix="openenv-seccomp-", suffix=".json")  # noqa: SIM115
        file.write(profile)
        file.flush()
        self._profile = file
        return file.name

    def close(self) -> None:
        """Close the connections, and remove the file."""
        super().close()
        if self._profile is not None:
            self._profile.close()


def _usual_socket() -> str:
    folder = "/run" if os.geteuid() == 0 else f"/run/user/{os.geteuid()}"
    return f"unix://{folder}/podman/podman.sock"
