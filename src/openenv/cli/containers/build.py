"""`openenv build`: build the container image of an environment."""

import re
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

import typer
from packaging.requirements import Requirement
from packaging.utils import canonicalize_name
from rich.console import Console

from openenv.core.utils import PACKAGE_FOLDER
from openenv.envs.catalog import entries, load
from openenv.hosting import images
from openenv.hosting.images.distributions import OWN, PACKAGES
from openenv.hosting.images.engine import docker_build, engine_client
from openenv.hosting.images.machine_image import build_from_machine

EXAMPLE = "Examples: `openenv build echo`, `openenv build ./my_env --tag owner/my-env:1`, "
EXAMPLE += "`openenv build openspiel --from-machine`"
BASE = "openenv-base"
"""The image that the Dockerfiles of environments begin with."""
BASE_DOCKERFILE = Path(images.__file__).with_name("Dockerfile")
_REPOSITORY = PACKAGE_FOLDER.parents[1]
_PROVIDED = {"openenv", "openenv-core", OWN}
"""Distributions whose packages this one has."""


@dataclass(frozen=True, kw_only=True)
class Source:
    """What an image is built from."""

    folder: Path
    tag: str
    command: tuple[str, ...]
    """The server's, in an image of this machine."""
    requirements: tuple[str, ...]
    """Distributions that it needs, with their extras."""
    packages: Mapping[str, Path]
    """Folders that are packages by themselves."""
    programs: tuple[str, ...] = ()
    """Programs of the system that it needs."""


def build(
    environment: str = typer.Argument(
        ".",
        metavar="[ENVIRONMENT]",
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
    from_machine: bool = typer.Option(
        False,
        "--from-machine",
        help="Build from this Python and its installed packages, without a Dockerfile or registry (default: not).",
    ),
) -> None:
    """Build the container image of an environment, and print its size."""
    source = _source(environment)
    tag = tag or source.tag
    if from_machine:
        _refuse_with_machine(context, dockerfile, build_arg, no_cache=no_cache)
        _build_from_machine(source, tag)
        return
    dockerfile = dockerfile or dockerfile_of(source.folder)
    if not dockerfile.is_file():
        raise ValueError(f"there is no {dockerfile}: give --dockerfile, or --from-machine to build without one")
    arguments = dict(name_and_value("--build-arg", argument) for argument in build_arg)
    build_dockerfile(tag, dockerfile, context or source.folder, arguments, no_cache=no_cache)
    typer.echo(f"built {tag}")


def build_dockerfile(
    tag: str, dockerfile: Path, context: Path, arguments: Mapping[str, str] | None = None, *, no_cache: bool = False
) -> None:
    """Build an image, and before it the base image of environments, if it begins with that. Raises ContainerFault."""
    if _begins_with_base(dockerfile):
        _build_base(no_cache=no_cache)
    docker_build(tag, dockerfile, context, build_args=arguments, no_cache=no_cache)


def _source(environment: str) -> Source:
    """The bundled environment of that name, or the one in that folder. Raises LookupError for neither."""
    folder = Path(environment).resolve()
    if (folder / "openenv.yaml").is_file() and not any(environment == entry.name for entry in entries()):
        return _folder_source(folder)
    try:
        entry = load(environment)
    except LookupError as error:
        raise LookupError(f"{error} A folder has to contain openenv.yaml") from None
    return Source(
        folder=PACKAGE_FOLDER / "envs" / f"{entry.name}_env",
        tag=f"{entry.name.replace('_', '-')}-env:latest",
        command=("python", "-m", entry.server),
        requirements=(f"{OWN}[{entry.extra}]" if entry.extra else OWN,),
        packages={},
        programs=entry.programs,
    )


def _folder_source(folder: Path) -> Source:
    project = folder / "pyproject.toml"
    content = tomllib.loads(project.read_text(encoding="utf-8")) if project.is_file() else {}
    needed = content.get("project", {}).get("dependencies", [])
    return Source(
        folder=folder,
        tag=f"{folder.name.replace('_', '-').lower()}:latest",
        command=("python", "-m", "openenv", "serve", f"/{PACKAGES}/{folder.name}"),
        requirements=(OWN, *(text for text in needed if canonicalize_name(Requirement(text).name) not in _PROVIDED)),
        packages={folder.name: folder},
    )


def dockerfile_of(folder: Path) -> Path:
    """Where a folder of an environment has its Dockerfile."""
    inner = folder / "server" / "Dockerfile"
    return inner if inner.is_file() else folder / "Dockerfile"


def _refuse_with_machine(
    context: Path | None, dockerfile: Path | None, build_arg: list[str], *, no_cache: bool
) -> None:
    given = {"--context": context, "--dockerfile": dockerfile, "--build-arg": build_arg, "--no-cache": no_cache}
    named = [option for option, value in given.items() if value]
    if named:
        raise ValueError(f"{', '.join(named)}: not accepted with --from-machine, which uses no Dockerfile")


def _build_from_machine(source: Source, tag: str) -> None:
    if source.programs:
        raise ValueError(
            f"{source.folder.name} needs the program {', '.join(source.programs)}, which --from-machine does not copy: "
            "build it from its Dockerfile, without --from-machine"
        )
    client = engine_client()
    with Console(stderr=True).status(f"building {tag}") as status:
        build_from_machine(
            client, tag, source.command, requirements=source.requirements, folders=source.packages,
            on_line=lambda line: status.update(line) if line.startswith("Step") else None,
        )  # fmt: skip
    typer.echo(f"built {tag}: {client.images.get(tag).attrs['Size'] / 1e6:.0f} MB")


def name_and_value(option: str, pair: str) -> tuple[str, str]:
    """The two parts of an option's NAME=VALUE. Raises ValueError."""
    name, equals, value = pair.partition("=")
    if not name or not equals:
        raise ValueError(f"{option} {pair}: write NAME=VALUE")
    return name, value


def _begins_with_base(dockerfile: Path) -> bool:
    return re.search(rf"^FROM {BASE}\s*$", dockerfile.read_text(encoding="utf-8"), re.MULTILINE) is not None


def _build_base(*, no_cache: bool) -> None:
    """Build the base image from the repository, or, where this package is not in one, from the package index."""
    if (_REPOSITORY / "constraints.txt").is_file():
        docker_build(BASE, BASE_DOCKERFILE, _REPOSITORY, no_cache=no_cache)
    else:
        requirement = {"OPENENV": f"{OWN}=={version(OWN)}"}
        docker_build(BASE, BASE_DOCKERFILE, BASE_DOCKERFILE.parent, build_args=requirement, no_cache=no_cache)
