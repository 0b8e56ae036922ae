"""`openenv push`: put an environment on the Hugging Face Hub, as a Docker Space."""

from collections.abc import Mapping
from dataclasses import dataclass
from fnmatch import fnmatchcase
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import typer

from openenv.cli.hub.account import hub_api, hub_errors, key_values, require_space_id, user_name
from openenv.cli.hub.registry import push_to_registry
from openenv.cli.hub.space_files import write_space
from openenv.envs.catalog import read_manifest

if TYPE_CHECKING:
    from huggingface_hub import HfApi

EXAMPLE = "Examples: `openenv push ./my_env`, `openenv push ./my_env --repo-id owner/my-env --private`"


@dataclass(frozen=True, kw_only=True)
class SpaceSettings:
    """What a Space has beside its files."""

    private: bool
    hardware: str | None
    variables: Mapping[str, str]
    secrets: Mapping[str, str]


def push(
    directory: Path = typer.Argument(
        Path(), help="Push the environment of this folder (default: the current one).", show_default=False
    ),
    repo_id: str | None = typer.Option(
        None,
        "--repo-id",
        "-r",
        help="Push to this Space, NAME or OWNER/NAME (default: your name / its openenv.yaml's).",
    ),
    base_image: str | None = typer.Option(
        None, "--base-image", "-b", help="Begin the Dockerfile with this image (default: its own)."
    ),
    interface: bool = typer.Option(False, "--interface", help="Turn the page at /web on (default: on)."),
    no_interface: bool = typer.Option(False, "--no-interface", help="Turn the page at /web off (default: on)."),
    registry: str | None = typer.Option(
        None,
        "--registry",
        help="Build the image and push it to this registry of containers, such as docker.io/ada (default: the Hub).",
    ),
    private: bool = typer.Option(False, "--private", help="Make the Space private (default: public)."),
    create_pr: bool = typer.Option(
        False, "--create-pr", help="Open a pull request at an existing Space (default: push to it)."
    ),
    exclude: Path | None = typer.Option(
        None, "--exclude", help="Leave out what this file lists, one pattern of .gitignore a line (default: none)."
    ),
    delete: list[str] = typer.Option(
        [],
        "--delete",
        help="Delete the Space's files of this pattern that are not pushed again; may be repeated (default: none).",
        show_default=False,
    ),
    hardware: str | None = typer.Option(
        None, "--hardware", "-H", help="Request this hardware, such as t4-medium (default: the Space's)."
    ),
    count: int = typer.Option(
        1,
        "--count",
        "-n",
        min=1,
        help="Push to this many Spaces, NAME-1, NAME-2, ... (default 1: to NAME).",
        show_default=False,
    ),
    env_var: list[str] = typer.Option(
        [],
        "--env-var",
        "-e",
        help="Set a public variable of the Space, as KEY=VALUE, beside `variables` of openenv.yaml; may be repeated.",
        show_default=False,
    ),
    secret: list[str] = typer.Option(
        [],
        "--secret",
        show_default=False,
        help="Set the secret KEY of the Space to the environment variable of that name, or KEY=VALUE; may be repeated.",
    ),
) -> None:
    """Put an environment on the Hugging Face Hub as a Docker Space, or its image in a registry. The Hub needs the extra
    `hub` and a token (`hf auth login`, or HF_TOKEN). Hidden files, caches and files with secrets are left out."""
    settings = {"--hardware": hardware, "--private": private, "--env-var": env_var, "--secret": secret}
    given = [name for name, value in settings.items() if value]
    of_the_hub = {"--repo-id": repo_id, "--create-pr": create_pr, "--exclude": exclude, "--delete": delete}
    if registry:
        _refuse_with_registry([*given, *(name for name, value in of_the_hub.items() if value)], count)
    _refuse_combinations(given, both_pages=interface and no_interface, create_pr=create_pr, count=count)
    folder, manifest = _environment(directory)
    has_page = True if interface else False if no_interface else None
    if registry:
        tag = push_to_registry(folder, manifest, registry, base_image=base_image, has_page=has_page)
        typer.echo(f"pushed {tag}")
        return
    variables = {**_manifest_variables(manifest), **key_values("--env-var", env_var)}
    secrets = key_values("--secret", secret, is_secret=True)
    api = hub_api()
    with TemporaryDirectory() as temporary:
        staged = Path(temporary)
        withheld = write_space(
            folder, staged, manifest, excluded=_patterns(folder, exclude), base_image=base_image, has_page=has_page,
        )  # fmt: skip
        for path in withheld:
            typer.echo(f"left out, because it may hold secrets: {path}", err=True)
        space = _space_id(api, repo_id or str(manifest["name"]))
        if create_pr:
            if variables:
                typer.echo("not set by a pull request: `variables` of openenv.yaml", err=True)
            typer.echo(f"pull request: {_upload(api, space, staged, delete, create_pr=True)}")
            return
        wanted = SpaceSettings(private=private, hardware=hardware, variables=variables, secrets=secrets)
        for one in [space] if count == 1 else [f"{space}-{number}" for number in range(1, count + 1)]:
            _prepare(api, one, wanted)
            _upload(api, one, staged, delete, create_pr=False)
            typer.echo(f"pushed {folder.name} to {api.endpoint}/spaces/{one}")


def _refuse_with_registry(named: list[str], count: int) -> None:
    if count > 1:
        raise ValueError("--count and --registry: give one of them")
    if named:
        raise typer.BadParameter(f"{', '.join(named)}: of a Space only. Leave out --registry, or these")


def _refuse_combinations(settings: list[str], *, both_pages: bool, create_pr: bool, count: int) -> None:
    if both_pages:
        raise ValueError("--interface and --no-interface: give one of them")
    if create_pr and count > 1:
        raise ValueError("--count and --create-pr: give one of them")
    if create_pr and settings:
        raise typer.BadParameter(f"{', '.join(settings)}: a pull request changes only files. Leave out --create-pr")


def _environment(directory: Path) -> tuple[Path, dict[str, Any]]:
    """The folder of an environment, and its manifest. Raises ValueError; ends with exit code 2 for what is no folder,
    or has a manifest without a name."""
    folder = directory.resolve()
    if not folder.is_dir():
        raise typer.BadParameter(f"there is no folder {folder}")
    if not (folder / "openenv.yaml").is_file():
        raise ValueError(f"{folder} has no openenv.yaml: give the folder of an environment (`openenv init` writes one)")
    manifest = read_manifest(folder / "openenv.yaml")
    if not manifest.get("name"):
        raise typer.BadParameter(f"{folder / 'openenv.yaml'} has no `name`")
    return folder, manifest


def _manifest_variables(manifest: Mapping[str, Any]) -> dict[str, str]:
    declared = manifest.get("variables") or {}
    if not isinstance(declared, dict):
        raise typer.BadParameter("`variables` of openenv.yaml: write KEY: value")
    return {str(key): str(value) for key, value in declared.items()}


def _patterns(folder: Path, exclude: Path | None) -> list[str]:
    """The lines of the file, whose path is relative to the environment's folder."""
    if exclude is None:
        return []
    if not (folder / exclude).is_file():
        raise typer.BadParameter(f"--exclude: there is no file {folder / exclude}")
    return (folder / exclude).read_text(encoding="utf-8").splitlines()


def _space_id(api: "HfApi", named: str) -> str:
    owner = user_name(api)
    space = named if "/" in named else f"{owner}/{named}"
    require_space_id("--repo-id", space)
    return space


def _prepare(api: "HfApi", space: str, wanted: SpaceSettings) -> None:
    """Create the Space unless it is there, and give it its settings. Raises HubFault, ValueError for a public one."""
    with hub_errors(f"cannot create the Space {space}"):
        api.create_repo(
            space, repo_type="space", space_sdk="docker", private=True if wanted.private else None, exist_ok=True
        )
        if wanted.private and not api.space_info(space).private:
            where = f"{api.endpoint}/spaces/{space}/settings"
            raise ValueError(f"{space} is public: make it private at {where}, or give another --repo-id")
    with hub_errors(f"cannot change the settings of {space}"):
        for key, value in wanted.variables.items():
            api.add_space_variable(space, key, value)
        for key, value in wanted.secrets.items():
            api.add_space_secret(space, key, value)
        if wanted.hardware is not None:
            api.request_space_hardware(space, wanted.hardware)  # type: ignore[arg-type]  # the Hub knows newer ones


def _upload(api: "HfApi", space: str, staged: Path, delete: list[str], *, create_pr: bool) -> str | None:
    """Upload the files in one commit, because the Hub builds a Space after each. Returns the URL of its pull request,
    if it has one. Raises HubFault."""
    from huggingface_hub import CommitOperationAdd, CommitOperationDelete

    added = {path.relative_to(staged).as_posix(): path for path in sorted(staged.rglob("*")) if path.is_file()}
    with hub_errors(f"cannot upload to {space}"):
        there = api.list_repo_files(space, repo_type="space") if delete else []
        deleted = [
            path
            for path in there
            if path not in added and path != ".gitattributes" and any(fnmatchcase(path, pattern) for pattern in delete)
        ]
        made = api.create_commit(
            space, repo_type="space", commit_message="Push the environment", create_pr=create_pr,
            operations=[
                *(CommitOperationDelete(path) for path in deleted),
                *(CommitOperationAdd(path, file) for path, file in added.items()),
            ],
        )  # fmt: skip
    return made.pr_url
