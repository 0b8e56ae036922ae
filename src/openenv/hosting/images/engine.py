"""The container engine that builds images: its client of the Docker SDK, and the `docker` command."""

import subprocess
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openenv.core.errors import ContainerFault
from openenv.core.utils import install_line

REMEDY = "Is an engine running (`docker info`), does DOCKER_HOST name it, and may this user access it?"
_TIMEOUT_S = 600.0  # one step of a build sends nothing while it runs


def engine_client() -> Any:
    """A client of the engine at DOCKER_HOST, or of the local one. Raises ContainerFault without SDK or engine."""
    try:
        # an extra: building from a Dockerfile needs the command only
        import docker
        from docker.errors import DockerException
    except ImportError:
        raise ContainerFault(f"this needs the Docker SDK: {install_line('docker')}") from None
    try:
        client = docker.from_env(timeout=_TIMEOUT_S)
        client.ping()
    except DockerException as error:
        raise ContainerFault(f"no container engine answers: {error}. {REMEDY}") from error
    return client


def docker_build(
    tag: str, dockerfile: Path, context: Path, *, build_args: Mapping[str, str] | None = None, no_cache: bool = False
) -> None:
    """Build an image with the `docker` command, which writes its progress to this process's output.

    The command has BuildKit, which many Dockerfiles need and the SDK cannot use. Raises ContainerFault if there is no
    such command, or if it fails.
    """
    command = ["docker", "build", f"--tag={tag}", f"--file={dockerfile}"]
    command += ["--no-cache"] if no_cache else []
    command += [f"--build-arg={name}={value}" for name, value in (build_args or {}).items()]
    code = _run([*command, str(context)], "Install it, or build with --from-machine")
    if code != 0:
        raise ContainerFault(
            f"docker build of {dockerfile} failed with code {code}; its output is above. {REMEDY} Where no registry "
            "can be reached, build with --from-machine"
        )


def docker_push(tag: str) -> None:
    """Push an image to the registry in its tag with the `docker` command, which writes its progress to this process's
    output. Raises ContainerFault if there is no such command, or if it fails."""
    code = _run(["docker", "push", tag], "Install it")
    if code != 0:
        raise ContainerFault(
            f"docker push of {tag} failed with code {code}; its output is above. Does the registry exist, and are you "
            "signed in (`docker login`)?"
        )


def _run(command: list[str], remedy: str) -> int:
    """The exit code of a command of docker. Raises ContainerFault if there is none on PATH."""
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    except FileNotFoundError:
        raise ContainerFault(f"there is no command 'docker' on PATH. {remedy}") from None
