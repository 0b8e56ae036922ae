"""Builds the image of an environment and pushes it to a registry of containers, in place of the Hub."""

from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from openenv.cli.containers.build import build_dockerfile
from openenv.cli.containers.dockerfile import dockerfile_in
from openenv.cli.hub.space_files import with_base_image, with_page
from openenv.hosting.images.engine import docker_push


def push_to_registry(
    folder: Path, manifest: Mapping[str, Any], registry: str, *, base_image: str | None, has_page: bool | None
) -> str:
    """Build the image of a folder and push it. Returns its tag, which is the registry and the environment's name.

    Args:
        registry: such as docker.io/ada.
        base_image: replaces that of the Dockerfile.
        has_page: whether `/` leads to the page at `/web`; None: as the Dockerfile decides.

    Raises:
        ValueError: without a Dockerfile.
        ContainerFault: if the image cannot be built or pushed.
    """
    with dockerfile_in(folder) as path:
        if not path.is_file():
            raise ValueError(f"{folder} has no Dockerfile and no server/Dockerfile, of which the image is built")
        text = path.read_text(encoding="utf-8")
    if base_image is not None:
        text = with_base_image(text, base_image)
    if has_page is not None:
        text = with_page(text, has_page=has_page)
    tag = f"{registry.rstrip('/')}/{manifest['name']}"
    with TemporaryDirectory() as temporary:
        changed = Path(temporary, "Dockerfile")
        changed.write_text(text, encoding="utf-8")
        build_dockerfile(tag, changed, folder)
    docker_push(tag)
    return tag
