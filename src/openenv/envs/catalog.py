"""Lists the bundled environments from the manifest `openenv.yaml` of each folder beside this file."""

import difflib
import importlib.util
from dataclasses import dataclass
from pathlib import Path
from typing import Any

_FOLDER = Path(__file__).parent


@dataclass(frozen=True, kw_only=True)
class CatalogEntry:
    """One bundled environment. Nothing of it is imported."""

    name: str
    description: str
    client: str
    server: str
    """The module that serves it: `python -m <server> --port 8000`."""
    text: str | None = None
    extra: str | None = None
    """The extra to install: `pip install 'openenv-rl[<extra>]'`; None where the environment needs none."""
    requires: tuple[str, ...] = ()
    """Modules that the server imports from the extra."""

    @property
    def is_installed(self) -> bool:
        """Whether all modules that the server imports are installed."""
        return all(importlib.util.find_spec(module) is not None for module in self.requires)


def entries() -> list[CatalogEntry]:
    """Return every bundled environment, sorted by folder."""
    manifests = sorted(_FOLDER.glob("*/openenv.yaml"))
    return [_read_entry(path) for path in manifests]


def load(name: str) -> CatalogEntry:
    """Return an environment by name (`openspiel` or `openspiel_env`). Raises LookupError that lists all names."""
    known = {entry.name: entry for entry in entries()}
    entry = known.get(name.removesuffix("_env").removesuffix("-env"))
    if entry is None:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise LookupError(f"environment {name!r} is not among {', '.join(known)}.{hint}")
    return entry


def _read_entry(path: Path) -> CatalogEntry:
    manifest = read_manifest(path)
    manifest["requires"] = tuple(manifest.get("requires", ()))
    return CatalogEntry(**manifest)


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the fields of an `openenv.yaml`. Raises ValueError unless it is a YAML mapping."""
    import yaml  # keeps `import openenv` light

    try:
        manifest = yaml.safe_load(path.read_text())
    except yaml.YAMLError as error:
        raise ValueError(f"{path} is not YAML: {error}") from error
    if not isinstance(manifest, dict):
        raise ValueError(f"{path} must be a mapping with `name: ...`, got {type(manifest).__name__}")
    return manifest
