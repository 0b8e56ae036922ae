"""The ways in which READMEs of environments start a server."""

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path

from openenv.cli.compat_path import FOLDER as COMPATIBILITY
from openenv.hosting.local_process import LocalServer

ENVIRONMENTS = Path(__file__).parent / "environments"
SOURCE = Path(__file__).parents[2] / "src"

Start = Callable[[str, Path, Mapping[str, str]], AbstractContextManager[str]]
"""Takes the name of an environment, an empty folder and environment variables; serves it and gives its base URL."""


@contextlib.contextmanager
def _served(
    module: str, arguments: Sequence[str], folder: Path, paths: Sequence[Path], env_vars: Mapping[str, str]
) -> Iterator[str]:
    """Run a module in a folder, with these folders on PYTHONPATH."""
    variables = {"PYTHONPATH": os.pathsep.join(map(str, (SOURCE, *paths))), **env_vars}
    with contextlib.chdir(folder):
        server = LocalServer(module, arguments, env_vars=variables).launch()
    try:
        yield server.base_url
    finally:
        server.stop()


def beside_the_files(name: str, tmp_path: Path, env_vars: Mapping[str, str]) -> AbstractContextManager[str]:
    """`cd my_env && uvicorn server.app:app`"""
    return _served("uvicorn", ["server.app:app"], ENVIRONMENTS / name, [], env_vars)


def as_a_package(name: str, tmp_path: Path, env_vars: Mapping[str, str]) -> AbstractContextManager[str]:
    """`uvicorn my_env.server.app:app`"""
    return _served("uvicorn", [f"{name}.server.app:app"], ENVIRONMENTS, [], env_vars)


def with_workers(name: str, tmp_path: Path, env_vars: Mapping[str, str]) -> AbstractContextManager[str]:
    """`uvicorn my_env.server.app:app --workers 2`"""
    return _served("uvicorn", [f"{name}.server.app:app", "--workers", "2"], ENVIRONMENTS, [], env_vars)


def in_a_repository(name: str, tmp_path: Path, env_vars: Mapping[str, str]) -> AbstractContextManager[str]:
    """`uvicorn envs.my_env.server.app:app`, in a repository whose folder `envs` is no package"""
    shutil.copytree(ENVIRONMENTS / name, tmp_path / "envs" / name)
    return _served("uvicorn", [f"envs.{name}.server.app:app"], tmp_path, [], env_vars)


def with_older_names(name: str, tmp_path: Path, env_vars: Mapping[str, str]) -> AbstractContextManager[str]:
    """`uvicorn my_env.server.app:app` with `core` on PYTHONPATH, as `openenv compat-path` prints it"""
    return _served("uvicorn", [f"{name}.server.app:app"], ENVIRONMENTS, [COMPATIBILITY], env_vars)


def as_a_program(name: str, tmp_path: Path, env_vars: Mapping[str, str]) -> AbstractContextManager[str]:
    """`python -m my_env.server.app --port 8000`"""
    return _served(f"{name}.server.app", [], ENVIRONMENTS, [], env_vars)


def by_openenv_serve(name: str, tmp_path: Path, env_vars: Mapping[str, str]) -> AbstractContextManager[str]:
    """`openenv serve ./my_env`"""
    return _served("openenv", ["serve", str(ENVIRONMENTS / name)], tmp_path, [], env_vars)


def by_openenv_serve_here(name: str, tmp_path: Path, env_vars: Mapping[str, str]) -> AbstractContextManager[str]:
    """`cd my_env && openenv serve`"""
    return _served("openenv", ["serve"], ENVIRONMENTS / name, [], env_vars)


def by_openenv_serve_in_a_repository(
    name: str, tmp_path: Path, env_vars: Mapping[str, str]
) -> AbstractContextManager[str]:
    """`openenv serve envs/my_env`, whose manifest names `envs.my_env.server.app:app`"""
    folder = tmp_path / "envs" / name
    shutil.copytree(ENVIRONMENTS / name, folder)
    manifest = folder / "openenv.yaml"
    manifest.write_text(manifest.read_text().replace("app: server", f"app: envs.{name}.server"))
    return _served("openenv", ["serve", f"envs/{name}"], tmp_path, [], env_vars)
