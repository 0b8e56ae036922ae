"""Writes packages of environments from the templates of this program."""

import importlib.metadata
import keyword
import sys
from collections.abc import Container, Iterator, Mapping
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from string import Template

import typer

_SUFFIX = ".template"


def require_name(name: str) -> None:
    """End with exit code 2 unless the name can be that of a Python package and of a class."""
    if not name.isidentifier() or not name.isascii() or name != name.lower() or keyword.iskeyword(name):
        raise typer.BadParameter(
            f"name={name!r}: use lower-case letters, digits and _, beginning with a letter, as in my_env"
        )
    if not _words(name) or name in ("openenv", "openenv_core", "tests"):
        raise typer.BadParameter(f"name={name!r}: choose another name, such as my_env")
    if name in sys.stdlib_module_names or name in _installed_modules():
        raise typer.BadParameter(
            f"name={name!r}: Python has a module of that name already, which the package would replace: choose "
            f"another name, such as {name}_env"
        )


def _installed_modules() -> Container[str]:
    """The names of the modules that installed distributions have, apart from packages of environments."""
    distributions = importlib.metadata.packages_distributions()
    return {name for name, by in distributions.items() if not all(one.startswith("openenv-") for one in by)}


def require_empty(folder: Path) -> None:
    """End with exit code 2 unless the folder is empty or not there."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise typer.BadParameter(f"{folder} exists already: choose another name, or remove it")


def write_package(
    folder: Path,
    name: str,
    *,
    overlay: str | None = None,
    left_out: tuple[str, ...] = (),
    values: Mapping[str, str] | None = None,
) -> None:
    """Write the package of an environment into a folder.

    Args:
        overlay: templates that replace those of an environment, by path.
        left_out: paths of the latter that are not written.
        values: of placeholders, beside those that follow from the name.
    """
    templates = files("openenv.cli") / "templates"
    texts = dict(_templates(templates / "environment"))
    for unwanted in left_out:
        del texts[PurePosixPath(unwanted)]
    if overlay is not None:
        texts.update(_templates(templates / overlay))
    filled = {**_values(name), **(values or {})}
    for path, text in texts.items():
        written = folder / path
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(Template(text).substitute(filled), encoding="utf-8")


def _words(name: str) -> list[str]:
    return [word for word in name.removesuffix("_env").split("_") if word]


def _values(name: str) -> dict[str, str]:
    """The values of the placeholders in the templates."""
    words = [word.capitalize() for word in _words(name)]
    dashed = name.replace("_", "-")
    distribution = dashed if dashed.startswith("openenv-") else f"openenv-{dashed}"
    return {
        "package": name,
        "Name": "".join(words),
        "title": " ".join(words),
        "distribution": distribution,
        "image": f"{dashed}:latest",
        "dependencies": '"openenv-rl"',
        "package_data": '"openenv.yaml"',
    }


def _templates(folder: Traversable, path: PurePosixPath = PurePosixPath()) -> Iterator[tuple[PurePosixPath, str]]:
    """The path, without the suffix of templates, and the text of each file."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _templates(entry, path / entry.name)
        elif entry.name.endswith(_SUFFIX):
            yield path / entry.name.removesuffix(_SUFFIX), entry.read_text(encoding="utf-8")
