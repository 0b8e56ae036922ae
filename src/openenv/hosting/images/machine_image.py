"""Builds an image from this machine's Python, without a registry: nothing is downloaded."""

import tarfile
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

from openenv.core.errors import ContainerFault
from openenv.core.formats.json_text import json_text
from openenv.hosting.images.distributions import (
    ENVIRONMENT,
    OWN,
    PACKAGES,
    is_own,
    own_files,
    package_files,
    required_distributions,
)
from openenv.hosting.images.image_files import ImageFiles
from openenv.hosting.images.machine_python import python_files

_HEALTH_CHECK = f"/{PACKAGES}/openenv/hosting/images/health_check.py"
_TRIAL = ["python", "-m", "openenv.hosting.images.trial"]
_SHOWN_LINES = 30
_DOCKERFILE = """\
FROM scratch
COPY python/ /
ENV PATH=/{environment}/bin:/usr/local/bin:/usr/bin LANG=C.UTF-8 HOME=/tmp PYTHONUNBUFFERED=1
COPY libraries/ /
COPY packages/ /
RUN {trial}
USER 1000:1000
HEALTHCHECK CMD {health_check}
ENTRYPOINT {entrypoint}
CMD ["--host", "0.0.0.0", "--port", "8000"]
"""
"""The trial runs the server, and thereby compiles its modules: the root is read-only in use. Images of different
environments share the layers of Python and of the libraries of every server."""


def build_from_machine(
    client: Any,
    tag: str,
    command: Sequence[str],
    *,
    requirements: Sequence[str],
    folders: Mapping[str, Path],
    on_line: Callable[[str], None],
) -> None:
    """Build an image of this Python with the installed distributions of `requirements` and all that they require.

    client: of the Docker SDK. command: the server's, which takes --host and --port. folders: of further packages, by
    their names. on_line: receives each line of progress. Raises ValueError for what is not installed, and
    ContainerFault if the engine fails, or the server does not start in the image.
    """
    dockerfile = _DOCKERFILE.format(
        environment=ENVIRONMENT,
        trial=json_text([*_TRIAL, *command]),
        health_check=json_text(["python", "-I", "-S", _HEALTH_CHECK]),
        entrypoint=json_text(list(command)),
    )
    layers = _layers(requirements, folders)
    with tempfile.TemporaryFile() as context:
        with tarfile.open(fileobj=context, mode="w") as archive:
            ImageFiles(texts={"Dockerfile": dockerfile}).write(archive, ".")
            for name, files in layers.items():
                files.write(archive, name)
        context.seek(0)
        _build(client, context, tag, on_line)
    _check(client, tag, command)


def _layers(requirements: Sequence[str], folders: Mapping[str, Path]) -> dict[str, ImageFiles]:
    """The files of each layer: Python, what every server requires, and what this one does."""
    general = {found.name: found for found in required_distributions([OWN]) if not is_own(found)}
    special = [
        found for found in required_distributions(requirements) if not is_own(found) and found.name not in general
    ]
    python = python_files()
    libraries = package_files(general.values(), python)
    packages = own_files()
    extra = package_files(special, python, libraries)
    packages.copies |= extra.copies
    for name, folder in folders.items():
        packages.add_tree(folder, f"{PACKAGES}/{name}")
    return {"python": python, "libraries": libraries, "packages": packages}


def _build(client: Any, context: Any, tag: str, on_line: Callable[[str], None]) -> None:
    """Build the context. Raises ContainerFault with the engine's message and the last lines of output."""
    messages = client.api.build(
        fileobj=context, custom_context=True, tag=tag, rm=True, forcerm=True, network_mode="none", decode=True
    )
    lines: deque[str] = deque(maxlen=_SHOWN_LINES)
    for message in messages:
        if "error" in message:
            output = "\n".join(lines)
            raise ContainerFault(f"building {tag} failed: {message['error'].strip()}\n{output}")
        for line in message.get("stream", "").splitlines():
            lines.append(line)
            on_line(line)


def _check(client: Any, tag: str, command: Sequence[str]) -> None:
    """Run the server as it will run: as an ordinary user without capabilities, on a root that is read-only."""
    from docker.errors import ContainerError

    try:
        client.containers.run(
            tag, [*_TRIAL[1:], *command], entrypoint=_TRIAL[0], network_mode="none", read_only=True, cap_drop=["ALL"],
            tmpfs={"/tmp": ""}, remove=True,
        )  # fmt: skip
    except ContainerError as error:
        output = error.stderr.decode(errors="replace")[-2000:]
        raise ContainerFault(f"{tag} was built, but its server does not start in it as user 1000:\n{output}") from None
