"""`openenv doctor`: what this machine has, and what to do for the rest."""

import importlib.metadata
import os
import platform
import shutil
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from importlib.util import find_spec

import typer
from packaging.requirements import Requirement
from rich.table import Table
from rich.text import Text

from openenv.core.errors import ContainerFault
from openenv.evaluation.tables import table_console
from openenv.formats.json_text import json_text
from openenv.hosting.runtime.docker import LocalDockerProvider
from openenv.hosting.sandbox.sandbox import SandboxHost
from openenv.installation import BUNDLE, install_line

EXAMPLE = "Examples: `openenv doctor`, `openenv doctor --json`"

_GROUPS = {"all", "dev"}
"""Extras that are lists of others."""
_TOKENS = {
    "OPENENV_TOKEN": "set it where a server asks for one",
    "HF_TOKEN": "set it, or run `hf auth login`, to push to the Hugging Face Hub",
    "OPENAI_API_KEY": "set it for `openenv eval --policy llm:MODEL@URL`",
}


@dataclass(frozen=True)
class Row:
    """One line of the table."""

    part: str
    is_there: bool
    found: str
    remedy: str = ""


def doctor(
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table (default: a table)."),
) -> None:
    """Show what of openenv this machine can run: extras, GPU, containers, sandboxes, browser, tokens.

    The exit code is 0: nothing in the table is needed by everyone.
    """
    rows = [*_system(), *_extras(), *_programs(), *_tokens()]
    if as_json:
        typer.echo(json_text([asdict(row) for row in rows], indent=2))
        return
    table = Table("", "there", "found", "otherwise")
    for row in rows:
        cells = (row.part, "yes" if row.is_there else "no", row.found, "" if row.is_there else row.remedy)
        table.add_row(*map(Text, cells))
    table_console(160).print(table)


def _system() -> Iterator[Row]:
    yield Row("openenv", True, importlib.metadata.version(BUNDLE))
    yield Row("Python", True, f"{platform.python_version()} on {platform.platform(terse=True)}")
    yield Row("processors", True, str(os.cpu_count()))
    if find_spec("torch") is None:
        yield Row("GPU", False, "", f"{install_line('train')} to train")
        return
    import torch

    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    yield Row("GPU", bool(name), name or f"PyTorch {torch.__version__} sees none", "models train on processors")


def _extras() -> Iterator[Row]:
    """The extras of the package, and what of them is not installed."""
    about = importlib.metadata.metadata(BUNDLE)
    for extra in sorted(set(about.get_all("Provides-Extra") or ()) - _GROUPS):
        missing = sorted(_missing(extra))
        found = f"without {', '.join(missing)}" if missing else ""
        yield Row(f"extra {extra}", not missing, found, install_line(extra))


def _missing(extra: str) -> set[str]:
    """The distributions of an extra that are not installed, those of other extras that it names included."""
    found: set[str] = set()
    for line in importlib.metadata.requires(BUNDLE) or ():
        requirement = Requirement(line)
        if requirement.marker is None or not requirement.marker.evaluate({"extra": extra}):
            continue
        if requirement.name == BUNDLE:
            found |= set().union(*map(_missing, requirement.extras))
        elif not _is_installed(requirement):
            found.add(str(requirement.name))
    return found


def _is_installed(requirement: Requirement) -> bool:
    try:
        version = importlib.metadata.version(requirement.name)
    except importlib.metadata.PackageNotFoundError:
        return False
    return requirement.specifier.contains(version, prereleases=True)


def _programs() -> Iterator[Row]:
    yield _docker()
    try:
        with SandboxHost() as host:
            yield Row("sandbox", True, host.level)
    except ContainerFault as error:
        yield Row("sandbox", False, "", str(error))
    chromium = shutil.which("chromium")
    yield Row("Chromium", chromium is not None, chromium or "", "apt-get install chromium, for the browser environment")


def _docker() -> Row:
    try:
        LocalDockerProvider().close()
    except (ContainerFault, ImportError) as error:
        return Row("Docker", False, "", str(error))
    return Row("Docker", True, os.environ.get("DOCKER_HOST", "its usual socket"))


def _tokens() -> Iterator[Row]:
    for name, remedy in _TOKENS.items():
        yield Row(name, name in os.environ, "set" if name in os.environ else "", remedy)
