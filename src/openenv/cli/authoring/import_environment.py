"""`openenv import`: make a package of an environment that was written for another one."""

import shutil
import tomllib
from collections.abc import Sequence
from pathlib import Path

import typer
from packaging.requirements import InvalidRequirement, Requirement
from packaging.utils import canonicalize_name

from openenv.cli.authoring.detection import SOURCE_TYPES, FoundEnvironment, SourceType, find_environments
from openenv.cli.authoring.packages import require_empty, require_name, write_package
from openenv.hosting.shared_files import LEFT_OUT, SECRETS
from openenv.installation import BUNDLE

EXAMPLE = "Example: `openenv import ./cliffs --name cliffs_env --output-dir .`"
_NEEDED: dict[SourceType, str] = {
    "gymnasium": f"{BUNDLE}[gymnasium]", "ors": BUNDLE, "verifiers": f"{BUNDLE}[verifiers]"
}  # fmt: skip
_REPLACED: dict[SourceType, tuple[str, ...]] = {
    "gymnasium": ("train.yaml",), "ors": ("train.yaml", "models.py"), "verifiers": ("train.yaml", "models.py")
}  # fmt: skip
"""Files of `openenv init` that an imported environment does not have, or not so."""
_TOOL_CLIENT = ("from openenv.core.mcp_client import MCPToolClient", "MCPToolClient")
_REPLY_CLIENT = (
    "from openenv import EnvClient, State\n"
    "from openenv.dialects.tool_environment import MessageObservation\n"
    "from openenv.dialects.verifiers_environment import ReplyAction",
    "EnvClient[ReplyAction, MessageObservation, State]",
)
"""Imports and base class of a client of verifiers, with tools and without."""


def import_environment(
    source: Path = typer.Argument(help="Import the environment in this folder of Python source."),
    name: str = typer.Option(..., "--name", "-n", help="Name of the package, in snake_case, such as cliffs_env."),
    output_dir: Path = typer.Option(..., "--output-dir", "-o", help="Make its folder in this one."),
    env_class: str | None = typer.Option(
        None, "--env-class", help="Import this class, as CLASS or MODULE:CLASS (default: the one that is found)."
    ),
    source_type: str | None = typer.Option(
        None, "--type", help=f"Look for this kind only: {', '.join(SOURCE_TYPES)} (default: for each)."
    ),
) -> None:
    """Make a package of an environment that was written for Gymnasium (a class with `reset` and `step`), for the Open
    Reward Standard, or for verifiers (a function `load_environment`). The package has a copy of the source, which is
    not run now, and the files that `openenv init` writes. Exit codes: 0 made, 1 failed, 2 wrong arguments, or not
    exactly one environment."""
    require_name(name)
    root = source.expanduser().resolve()
    if not root.is_dir():
        raise typer.BadParameter(f"SOURCE: there is no folder {root}")
    folder = output_dir.expanduser().resolve() / name
    if folder.is_relative_to(root):
        raise typer.BadParameter(f"--output-dir {output_dir}: choose a folder outside {root}")
    require_empty(folder)
    found = _chosen(root, env_class, source_type)
    links = [path for path in root.rglob("*") if path.is_symlink()]
    if links:
        raise ValueError(f"{links[0]} is a link, which a package cannot have: copy its target, or remove it")
    vendor = _vendor_name(root)
    try:
        _write(root, folder, name, vendor, found)
    except BaseException:
        shutil.rmtree(folder, ignore_errors=True)
        raise
    typer.echo(f"written: {folder}, of {found.qualified_name} ({found.source_type})\n")
    typer.echo(f"Next, in {folder.parent}:\n  openenv check ./{name}\n  openenv serve ./{name}")


def _chosen(root: Path, env_class: str | None, source_type: str | None) -> FoundEnvironment:
    """The one environment of the folder that the options allow. Ends with exit code 2 for none or several."""
    if source_type is not None and source_type not in SOURCE_TYPES:
        raise typer.BadParameter(f"--type {source_type}: give one of {', '.join(SOURCE_TYPES)}")
    found = [each for each in find_environments(root) if source_type in (None, each.source_type)]
    if not found:
        raise typer.BadParameter(
            f"{root} has no environment: no class derives from gymnasium.Env or openreward's Environment, none has the "
            "methods reset() and step(action), and no file for verifiers has a function load_environment"
        )
    named = [each for each in found if env_class in (None, each.class_name, each.qualified_name)]
    several = ", ".join(each.qualified_name for each in named or found)
    if not named:
        raise typer.BadParameter(f"--env-class {env_class}: give one of {several}")
    if len(named) > 1:
        raise typer.BadParameter(f"{root} has several environments: give one with --env-class, of {several}")
    return named[0]


def _write(root: Path, folder: Path, name: str, vendor: str, found: FoundEnvironment) -> None:
    dependencies = _dependencies(root, found.source_type)
    client_import, client_base = _TOOL_CLIENT if found.has_tools else _REPLY_CLIENT
    write_package(
        folder, name, overlay=f"imported/{found.source_type}", left_out=_REPLACED[found.source_type],
        values={
            "vendor": vendor, "source_module": found.module, "source_class": found.class_name,
            "dependencies": ", ".join(f"'{text}'" if '"' in text else f'"{text}"' for text in dependencies),
            "client_import": client_import, "client_base": client_base,
            "package_data": '"openenv.yaml", "vendor/**/*"',
        },
    )  # fmt: skip
    patterns = [pattern.rstrip("/") for pattern in (*LEFT_OUT, ".*", *SECRETS)]
    shutil.copytree(root, folder / "vendor" / vendor, ignore=shutil.ignore_patterns(*patterns))


def _vendor_name(root: Path) -> str:
    name = root.name.replace("-", "_")
    return name if name.isidentifier() else "source"


def _dependencies(root: Path, source_type: SourceType) -> list[str]:
    """What the package needs: this one, and what the source declares in pyproject.toml or requirements.txt."""
    project, listed = root / "pyproject.toml", root / "requirements.txt"
    texts: Sequence[str] = []
    if project.is_file():
        texts = tomllib.loads(project.read_text(encoding="utf-8")).get("project", {}).get("dependencies", [])
    lines = listed.read_text(encoding="utf-8").splitlines() if listed.is_file() else []
    needed: dict[str, str] = {canonicalize_name(BUNDLE): _NEEDED[source_type]}
    for text in (*texts, *(line.partition(" #")[0].strip() for line in lines)):
        try:
            requirement = Requirement(text)
        except InvalidRequirement:  # an option of pip, a path, a comment
            continue
        if requirement.url is None:
            needed.setdefault(canonicalize_name(requirement.name), str(requirement))
    if source_type == "ors" and not (root / "ors").exists():
        needed.setdefault("openreward", "openreward")
    return list(needed.values())
