"""The `docker` command, which builds and pushes images."""

import subprocess
from collections.abc import Mapping
from pathlib import Path

from openenv.core.errors import ContainerFault

REMEDY = "Is an engine running (`docker info`), does DOCKER_HOST name it, and may this user access it?"


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
    code = _run([*command, str(context)])
    if code != 0:
        raise ContainerFault(
            f"docker build of {dockerfile} failed with code {code}; its output is above. {REMEDY} Where no registry "
            "can be reached, build elsewhere, and move the image with `docker save` and `docker load`"
        )


def docker_push(tag: str) -> None:
    """Push an image to the registry in its tag with the `docker` command, which writes its progress to this process's
    output. Raises ContainerFault if there is no such command, or if it fails."""
    code = _run(["docker", "push", tag])
    if code != 0:
        raise ContainerFault(
            f"docker push of {tag} failed with code {code}; its output is above. Does the registry exist, and are you "
            "signed in (`docker login`)?"
        )


def _run(command: list[str]) -> int:
    """The exit code of a command of docker. Raises ContainerFault if there is none on PATH."""
    try:
        return subprocess.run(command, stdin=subprocess.DEVNULL, check=False).returncode
    except FileNotFoundError:
        raise ContainerFault("there is no command 'docker' on PATH. Install it") from None
