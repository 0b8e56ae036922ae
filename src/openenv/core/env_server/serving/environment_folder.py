"""Finds the server of an environment's folder."""

import ast
import os
from pathlib import Path

import yaml

from openenv.core.containers.local_process import LocalServer

_START_TIMEOUT_S = 30.0


def server_of(folder: Path) -> LocalServer:
    """The server of the environment in a folder, not yet started.

    It is the `server` module of the manifest, else `server/app.py` with an `app`, or with a `main` that takes --host
    and --port. Raises LookupError that names what the folder lacks.
    """
    manifest = folder / "openenv.yaml"
    if not manifest.is_file():
        raise LookupError(f"{folder} has no openenv.yaml: give an environment's folder, or the URL of a server")
    content = yaml.safe_load(manifest.read_text(encoding="utf-8"))
    module = content.get("server") if isinstance(content, dict) else None
    root, package = _importable(folder.resolve())
    if isinstance(module, str):
        return _server(module, [], root, folder)
    app = folder / "server" / "app.py"
    if not app.is_file():
        raise LookupError(f"{folder} has no server/app.py, and its openenv.yaml names no `server` module")
    names = _names_of(app)
    if "app" in names:
        return _server("openenv", ["serve", f"{package}.server.app:app"], root, folder)
    if "main" in names:
        return _server(f"{package}.server.app", [], root, folder)
    raise LookupError(f"{app} has neither `app` nor `main`: write app = create_app(YourEnvironment)")


def _server(module: str, args: list[str], root: Path, folder: Path) -> LocalServer:
    paths = [str(root), str(folder.resolve()), *filter(None, [os.environ.get("PYTHONPATH")])]
    env_vars = {"PYTHONPATH": os.pathsep.join(paths)}
    return LocalServer(module, args, env_vars=env_vars, start_timeout_s=_START_TIMEOUT_S)


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
    for statement in ast.parse(module.read_text(encoding="utf-8")).body:
        if isinstance(statement, ast.FunctionDef):
            names.add(statement.name)
        elif isinstance(statement, ast.Assign | ast.AnnAssign):
            targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
            names.update(target.id for target in targets if isinstance(target, ast.Name))
        elif isinstance(statement, ast.ImportFrom):
            names.update(alias.asname or alias.name for alias in statement.names)
    return names
