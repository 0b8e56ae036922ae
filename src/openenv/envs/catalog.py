"""Lists the bundled environments from the manifest `openenv.yaml` of each folder beside this file."""

import difflib
import importlib
import importlib.util
import shutil
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openenv.core.utils import install_line
from openenv.envs.measured import MeasuredTask

_FOLDER = Path(__file__).parent
DEFAULT_GAME_KEYWORD = "game_name"
"""The keyword of resets that chooses a game where no manifest names another."""


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
    """The extra to install, for which `install_line` has the command; None where the environment needs none."""
    requires: tuple[str, ...] = ()
    """Modules that the server imports from the extra."""
    programs: tuple[str, ...] = ()
    """Programs of the system that an episode needs, and no extra installs."""
    tasks: str | None = None
    """A function, as MODULE:FUNCTION, that returns reset keywords by the name of a task; None: there is one task."""
    game_keyword: str | None = None
    """The keyword of resets that chooses a game or a kind of task by its name; None: no single keyword does."""
    measured: str | None = None
    """A mapping of MeasuredTask by the name of the task, as MODULE:NAME; see `measured.py`."""

    @property
    def is_installed(self) -> bool:
        """Whether all modules that the server imports are installed."""
        return all(importlib.util.find_spec(module) is not None for module in self.requires)

    @property
    def missing_programs(self) -> tuple[str, ...]:
        """The programs that are not on the PATH."""
        return tuple(program for program in self.programs if shutil.which(program) is None)

    @property
    def remedy(self) -> str:
        """What to do where a module or a program is missing."""
        if not self.is_installed:
            return install_line(str(self.extra))
        return f"install the program {' and '.join(self.missing_programs)}"

    def load_tasks(self) -> Mapping[str, Mapping[str, Any]]:
        """Return the reset keywords of each task by its name. Raises ImportError without the extra."""
        if self.tasks is None:
            return {self.name: {}}
        tasks: Mapping[str, Mapping[str, Any]] = _load_object(self.tasks)()
        return tasks

    def load_measured(self) -> Mapping[str, MeasuredTask]:
        """Return what `openenv envs --measure` plays, by the name of the task. Raises ImportError without the extra."""
        measured: Mapping[str, MeasuredTask] = {} if self.measured is None else _load_object(self.measured)
        return measured


def _load_object(path: str) -> Any:
    module, name = path.split(":")
    return getattr(importlib.import_module(module), name)


def entries() -> list[CatalogEntry]:
    """Return every bundled environment, sorted by folder."""
    manifests = sorted(_FOLDER.glob("*/openenv.yaml"))
    return [_read_entry(path) for path in manifests]


def load(name: str) -> CatalogEntry:
    """Return an environment by name (`openspiel` or `openspiel_env`). Raises LookupError that lists all names."""
    known = {entry.name: entry for entry in entries()}
    entry = known.get(name.removesuffix("_env").removesuffix("-env"))
    if entry is None:
        raise LookupError(unknown(name, known))
    return entry


def unknown(name: str, known: Iterable[str]) -> str:
    """What is wrong with a name that is not among the known ones: a file or a folder is taken for what it is."""
    if name.endswith(".py"):
        missing = "" if Path(name).is_file() else f", of a file that is there: {name} is not"
        return f"{name!r} names no class: write {name}:CLASS{missing}"
    if Path(name).is_dir():
        return f"{name} has no openenv.yaml: give an environment's folder, or FILE.py:CLASS of a file in it"
    near = difflib.get_close_matches(name, list(known), n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    return f"environment {name!r} is not among {', '.join(known)}.{hint}"


def game_keyword(environment: str) -> str | None:
    """Return the keyword of resets that chooses a game by its name, such as `env_id` for `gymnasium`.

    It is `game_name` for an environment that is not bundled, such as a folder or a URL. None for a bundled one in which
    no single keyword chooses a game.
    """
    try:
        return load(environment).game_keyword
    except LookupError:
        return DEFAULT_GAME_KEYWORD


def _read_entry(path: Path) -> CatalogEntry:
    manifest = read_manifest(path)
    for names in ("requires", "programs"):
        manifest[names] = tuple(manifest.get(names, ()))
    return CatalogEntry(**manifest)


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the fields of an `openenv.yaml`. Raises ValueError unless it is a YAML mapping."""
    from openenv.core.formats.yaml_text import read_yaml  # keeps `import openenv` light

    manifest = read_yaml(path)
    if not isinstance(manifest, dict):
        raise ValueError(f"{path} must be a mapping with `name: ...`, got {type(manifest).__name__}")
    return manifest
