"""`openenv build`: build the container image of an environment."""

import os
import re
from collections.abc import Mapping
from contextlib import nullcontext
from pathlib import Path

import typer

from openenv.cli.completion import environment_names
from openenv.cli.containers.dockerfile import BASE, dockerfile_in
from openenv.envs.catalog import load
from openenv.hosting import images
from openenv.hosting.images.engine import docker_build
from openenv.installation import BUNDLE, PACKAGE_FOLDER, bundle_version, source_folder

EXAMPLE = "Examples: `openenv build echo`, `openenv build ./my_env --tag owner/my-env:1`"
BASE_DOCKERFILE = Path(images.__file__).with_name("Dockerfile")


def build(
    environment: str = typer.Argument(
        ".",
        metavar="[ENVIRONMENT]",
        autocompletion=environment_names,
        help="Build this environment of `openenv envs`, or the one in this folder (with openenv.yaml; default: the "
        "current folder).",
    ),
    tag: str | None = typer.Option(None, "--tag", "-t", help="Tag the image so (default NAME-env:latest)."),
    context: Path | None = typer.Option(
        None, "--context", "-c", help="Send this folder to the engine (default: the environment's)."
    ),
    dockerfile: Path | None = typer.Option(
        None, "--dockerfile", "-f", help="Build this file (default: server/Dockerfile, or Dockerfile, of the folder)."
    ),
    no_cache: bool = typer.Option(False, "--no-cache", help="Repeat each step (default: use the engine's cache)."),
    build_arg: list[str] = typer.Option(
        [],
        "--build-arg",
        help="Set an argument of the Dockerfile, as NAME=VALUE; may be repeated (default: none).",
        show_default=False,
    ),
) -> None:
    """Build the container image of an environment, and print its tag."""
    folder, default_tag = _folder_and_tag(environment)
    tag = tag or default_tag
    arguments = dict(name_and_value("--build-arg", argument) for argument in build_arg)
    with dockerfile_in(folder) if dockerfile is None else nullcontext(dockerfile) as path:
        if not path.is_file():
            raise ValueError(f"there is no {path}: write one, or give --dockerfile")
        build_dockerfile(tag, path, context or folder, arguments, no_cache=no_cache)
    typer.echo(f"built {tag}")


def build_dockerfile(
    tag: str, dockerfile: Path, context: Path, arguments: Mapping[str, str] | None = None, *, no_cache: bool = False
) -> None:
    """Build an image, and before it the base image of environments, if it begins with that. Raises ContainerFault."""
    if _begins_with_base(dockerfile):
        _build_base(no_cache=no_cache)
    docker_build(tag, dockerfile, context, build_args=arguments, no_cache=no_cache)


def _folder_and_tag(environment: str) -> tuple[Path, str]:
    """The folder of a bundled environment, or the given one, and its tag. Raises LookupError for neither."""
    if environment == "." or Path(environment).is_dir() or os.sep in environment:
        folder = Path(environment).expanduser().resolve()
        if (folder / "openenv.yaml").is_file():
            return folder, f"{folder.name.replace('_', '-').lower()}:latest"
    try:
        entry = load(environment)
    except LookupError as error:
        raise LookupError(f"{error} A folder has to contain openenv.yaml") from None
    return entry.folder, f"{entry.name.replace('_', '-')}-env:latest"


def name_and_value(option: str, pair: str) -> tuple[str, str]:
    """The two parts of an option's NAME=VALUE. Raises ValueError."""
    name, equals, value = pair.partition("=")
    if not name or not equals:
        raise ValueError(f"{option} {pair}: write NAME=VALUE")
    return name, value


def _begins_with_base(dockerfile: Path) -> bool:
    return re.search(rf"^FROM {BASE}\s*$", dockerfile.read_text(encoding="utf-8"), re.MULTILINE) is not None


def _build_base(*, no_cache: bool) -> None:
    """Build the base image from the folder from which this package was installed, or else from the package index."""
    folder = source_folder() or PACKAGE_FOLDER.parents[1]  # a clone that is not installed
    if (folder / "constraints.txt").is_file():
        docker_build(BASE, BASE_DOCKERFILE, folder, no_cache=no_cache)
    else:
        requirement = {"OPENENV": f"{BUNDLE}=={bundle_version()}"}
        docker_build(BASE, BASE_DOCKERFILE, BASE_DOCKERFILE.parent, build_args=requirement, no_cache=no_cache)
