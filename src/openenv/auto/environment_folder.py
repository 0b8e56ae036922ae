"""Finds what serves the environment in a folder with an `openenv.yaml`, or in a file."""

import ast
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from openenv.formats.yaml_text import read_yaml

_APP = "server.app:app"


class FolderTarget(NamedTuple):
    """What serves an environment, and the folders that must be on sys.path for it."""

    target: str
    """`MODULE:APP`, or a MODULE that runs as a program with --host and --port."""
    paths: list[str]


def folder_target(folder: Path) -> FolderTarget:
    """What serves the environment in a folder. Nothing is imported.

    It is the `server` module of the manifest, else its `app` (`server.app:app`, in the folder or named from one above
    it), else the `main` of that module. An `EnvironmentProgram` called `program`, which takes options, comes before
    the application.
    Modules may import each other by the folder's name, relatively, or as if they lay beside each other. Raises
    LookupError that names what the folder lacks, and ValueError when the manifest is not YAML.
    """
    manifest = _read(folder / "openenv.yaml")
    root, package = _importable(folder.resolve())
    paths = [str(root), str(folder.resolve())]
    server = manifest.get("server")
    if isinstance(server, str):
        return FolderTarget(server, paths)
    module, _, name = str(manifest.get("app") or _APP).partition(":")
    within = Path(*module.split(".")).with_suffix(".py")
    path = folder / within
    if not path.is_file():
        above = next((parent for parent in folder.resolve().parents if (parent / within).is_file()), None)
        if above is None or not (above / within).is_relative_to(folder.resolve()):
            raise LookupError(f"{folder} has no {within}, and its openenv.yaml names no `server` module")
        return FolderTarget(f"{module}:{name}", [str(above), *paths])
    module = f"{package}.{module}" if all(part.isidentifier() for part in package.split(".")) else module
    names = _names_of(path)
    if _is_program(path):
        return FolderTarget(module, paths)
    if name in names:
        return FolderTarget(f"{module}:{name}", paths)
    if "main" in names:
        return FolderTarget(module, paths)
    raise LookupError(f"{path} has neither `{name}` nor `main`: write {name} = create_app(YourEnvironment)")


def file_target(named: str) -> FolderTarget:
    """What serves `FILE.py:NAME`: the module of that name in the file's folder.

    Raises LookupError for a file that is not there, ValueError for one whose name no module can have.
    """
    path, _, name = named.rpartition(":")
    file = Path(path)
    if not file.is_file():
        raise LookupError(f"{named}: there is no file {file}. Write FILE.py:NAME with a file of this folder")
    if not file.stem.isidentifier() or not name:
        raise ValueError(f"{named}: write FILE.py:NAME, where FILE has letters, digits and _ only")
    return FolderTarget(f"{file.stem}:{name}", [str(file.resolve().parent)])


def _is_program(module: Path) -> bool:
    """Whether a file makes an `EnvironmentProgram` called `program` and runs it when it is the main module."""
    body = ast.parse(module.read_text(encoding="utf-8")).body
    is_made = any(
        isinstance(one, ast.Assign)
        and [ast.unparse(target) for target in one.targets] == ["program"]
        and isinstance(one.value, ast.Call)
        and ast.unparse(one.value.func).rpartition(".")[2] == "EnvironmentProgram"
        for one in body
    )
    return is_made and any(isinstance(one, ast.If) and "__main__" in ast.unparse(one.test) for one in body)


def _read(manifest: Path) -> dict[str, Any]:
    if not manifest.is_file():
        raise LookupError(
            f"{manifest.parent} has no openenv.yaml: give an environment's folder, or the URL of a server"
        )
    content = read_yaml(manifest)
    return content if isinstance(content, dict) else {}


def _importable(folder: Path) -> tuple[Path, str]:
    """The folder that must be on sys.path, and the dotted name by which `folder` is then imported."""
    root, names = folder.parent, [folder.name]
    while (root / "__init__.py").is_file():
        names.append(root.name)
        root = root.parent
    return root, ".".join(reversed(names))


def _names_of(module: Path) -> set[str]:
    """The names that a module defines at its top level, found without importing it."""
    names: set[str] = set()
    for statement in _statements(ast.parse(module.read_text(encoding="utf-8")).body):
        if isinstance(statement, ast.FunctionDef | ast.ClassDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names.update(target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in statement.names)
    return names


def _statements(body: Sequence[ast.stmt]) -> Iterator[ast.stmt]:
    """The statements of a module, with those inside `if`, `try` and `with`."""
    for statement in body:
        yield statement
        if isinstance(statement, ast.If | ast.Try | ast.With):
            handlers = getattr(statement, "handlers", [])
            for part in (statement, *handlers):
                for name in ("body", "orelse", "finalbody"):
                    yield from _statements(getattr(part, name, []))
