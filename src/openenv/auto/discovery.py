"""Finds environments: the bundled ones, and those of installed `openenv-*` distributions."""

import importlib
import importlib.metadata
import importlib.util
import inspect
import json
import logging
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import Action, Observation
from openenv.core.errors import OpenEnvError
from openenv.core.utils import check_type
from openenv.envs import catalog
from openenv.installation import BUNDLE, bundle_version

log = logging.getLogger(__name__)

_NOT_ENVIRONMENTS = {"openenv-core", BUNDLE}


class UnknownEnvironment(OpenEnvError, LookupError, ValueError):
    """No environment has this name. The message lists the known ones."""


@dataclass(frozen=True, kw_only=True)
class EnvironmentInfo:
    """An environment that can be used by name. Its classes are imported on first access."""

    key: str
    """The shortest name: `echo` for `echo`, `echo-env` and `echo_env`."""
    package: str
    """The distribution that contains it."""
    version: str
    client_module: str
    description: str = ""
    server: str | None = None
    """The module that serves it on this machine; None where only a container image serves it."""
    text: str | None = None
    """The class of its text interface, as MODULE:CLASS; None where it follows from the schemas."""
    source: str | None = None
    """The URL from which the distribution was installed; None for a package index."""
    missing: str | None = None
    """What to do before it can be served here, such as a command of pip; None where nothing is missing."""
    manifest: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The name of its Python package: `echo_env`."""
        return f"{self.key}_env"

    @property
    def default_image(self) -> str:
        """The tag of the container image that its Dockerfile builds."""
        return f"{self.name.replace('_', '-')}:latest"

    @cached_property
    def client_class(self) -> type[EnvClient[Any, Any, Any]]:
        """The client class of its client module. Raises ImportError where the module defines none."""
        module = self._client_module
        for found in vars(module).values():
            if inspect.isclass(found) and issubclass(found, EnvClient) and found.__module__ == module.__name__:
                return found
        raise ImportError(f"{self.client_module} of {self.package} defines no subclass of EnvClient")

    @cached_property
    def action_class(self) -> type[Any]:
        """The class that the client's `step` takes. Raises ImportError where it cannot be found."""
        return self._message_class(0, "action", Action)

    @cached_property
    def observation_class(self) -> type[Any]:
        """The class of the client's observations. Raises ImportError where it cannot be found."""
        return self._message_class(1, "observation", Observation)

    @property
    def _client_module(self) -> Any:
        try:
            return importlib.import_module(self.client_module)
        except ImportError as error:
            raise ImportError(
                f"{self.package} is installed, but {self.client_module} cannot be imported: {error}. "
                f"Try `pip install --force-reinstall {self.package}`"
            ) from error

    def _message_class(self, position: int, kind: str, base: type) -> type[Any]:
        """Return the client's type parameter, or, for a client without one, the class with the usual name."""
        declared = self.client_class._message_classes[position]
        if inspect.isclass(declared) and declared is not base:
            return declared
        name = self.manifest.get(kind) or f"{self.client_class.__name__.removesuffix('Env')}{kind.capitalize()}"
        named = getattr(self._client_module, name, None)
        if not inspect.isclass(named):
            raise ImportError(f"{self.client_class.__name__} declares no {kind}, {self.client_module} has no {name}")
        return named


def environments() -> dict[str, EnvironmentInfo]:
    """Return all environments by key. An installed one replaces the bundled one of the same name."""
    importlib.invalidate_caches()  # finds a package that this process has just installed
    found = {info.key: info for info in (*_bundled(), *_installed())}
    return dict(sorted(found.items()))


def check_name(name: Any) -> None:
    """Raise TypeError for what is no name of an environment."""
    check_type("name", name, str, "the name of an environment, such as echo, FILE.py:CLASS, or the URL of a server")


def find_environment(name: str) -> EnvironmentInfo:
    """Return an environment by name; `echo`, `echo-env` and `echo_env` are equal. Raises UnknownEnvironment."""
    check_name(name)
    known = environments()
    key = _key(name)
    if name.endswith(".py") or key not in known:
        raise UnknownEnvironment(catalog.unknown(name, known))
    return known[key]


def _key(name: str) -> str:
    return re.sub(r"[-_.]+", "_", name.strip().lower()).removesuffix("_env")


def _bundled() -> Iterator[EnvironmentInfo]:
    for entry in catalog.entries():
        yield EnvironmentInfo(
            key=_key(entry.name), package=BUNDLE, version=bundle_version(), description=entry.description,
            client_module=entry.client.partition(":")[0], server=entry.server, text=entry.text,
            missing=None if entry.is_installed else entry.remedy,
        )  # fmt: skip


def _installed() -> Iterator[EnvironmentInfo]:
    for distribution in importlib.metadata.distributions():
        package = distribution.metadata["Name"] or ""
        name = re.sub(r"[-_.]+", "-", package.lower())
        if name.startswith("openenv-") and name not in _NOT_ENVIRONMENTS:
            module = _module_of(name.removeprefix("openenv-").replace("-", "_"))
            if module is not None:
                try:
                    yield _info(package, distribution, *module)
                except ValueError as error:  # one broken package does not hide the others
                    log.warning("skipped %s: %s", package, error)


def _module_of(stem: str) -> tuple[str, Path] | None:
    """Return import name and folder of a distribution's environment: `echo_env` or `echo` for `openenv-echo`."""
    for name in (stem, f"{stem.removesuffix('_env')}_env"):
        spec = importlib.util.find_spec(name)
        if spec is not None and spec.submodule_search_locations:
            return name, Path(next(iter(spec.submodule_search_locations)))
    return None


def _info(package: str, distribution: importlib.metadata.Distribution, module: str, folder: Path) -> EnvironmentInfo:
    path = folder / "openenv.yaml"
    manifest = catalog.read_manifest(path) if path.is_file() else {}
    direct_url = json.loads(distribution.read_text("direct_url.json") or "{}")
    return EnvironmentInfo(
        key=_key(manifest.get("name", module)), package=package, version=distribution.version,
        description=manifest.get("description", ""), client_module=f"{module}.client",
        source=direct_url.get("url"), text=manifest.get("text"), manifest=manifest,
    )  # fmt: skip
