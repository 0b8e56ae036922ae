"""`openenv init`: write a new environment, complete as it is."""

import keyword
from collections.abc import Iterator
from importlib.resources import files
from importlib.resources.abc import Traversable
from pathlib import Path, PurePosixPath
from string import Template

import typer

EXAMPLE = "Example: `openenv init my_env`"
_SUFFIX = ".template"


def init(
    name: str = typer.Argument(help="Name of the environment and of its folder, in snake_case, such as my_env."),
    output_dir: Path = typer.Option(
        Path(), "--output-dir", "-o", help="Make its folder in this one (default: the current folder)."
    ),
) -> None:
    """Write a new environment: messages, rules, server, client, tests, README, Dockerfile and a training file. It can
    be checked, served and trained on as it is. Then edit models.py, server/environment.py and
    tests/test_environment.py."""
    _require_name(name)
    folder = output_dir / name
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise ValueError(f"{folder} exists already: choose another name, or remove it")
    values = _values(name)
    for path, text in _templates(files("openenv.cli") / "templates" / "environment"):
        written = folder / path
        written.parent.mkdir(parents=True, exist_ok=True)
        written.write_text(Template(text).substitute(values), encoding="utf-8")
    typer.echo(f"written: {folder}\n\nNext, in {output_dir.resolve()}:\n  openenv check ./{name}")
    typer.echo(f"  openenv show ./{name}\n  openenv train {name}/train.yaml\n  openenv serve ./{name}")


def _require_name(name: str) -> None:
    """Raise ValueError unless the name can be that of a Python package and of a class."""
    if not name.isidentifier() or not name.isascii() or name != name.lower() or keyword.iskeyword(name):
        raise ValueError(f"name={name!r}: use lower-case letters, digits and _, beginning with a letter, as in my_env")
    if not _words(name) or name in ("openenv", "tests"):
        raise ValueError(f"name={name!r}: choose another name, such as my_env")


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
    }


def _templates(folder: Traversable, path: PurePosixPath = PurePosixPath()) -> Iterator[tuple[PurePosixPath, str]]:
    """The path, without the suffix of templates, and the text of each file."""
    for entry in folder.iterdir():
        if entry.is_dir():
            yield from _templates(entry, path / entry.name)
        elif entry.name.endswith(_SUFFIX):
            yield path / entry.name.removesuffix(_SUFFIX), entry.read_text(encoding="utf-8")
