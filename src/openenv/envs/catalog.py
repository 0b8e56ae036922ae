"""Lists the bundled environments from the manifest `openenv.yaml` of each folder beside this file."""

import difflib
import importlib
import importlib.util
import shutil
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from openenv.core.env_server.interfaces import Environment
from openenv.envs.measured import MeasuredTask, Optimum
from openenv.installation import install_line

_FOLDER = Path(__file__).resolve().parent
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
    debian: tuple[str, ...] = ()
    """Packages of Debian that its container image has, such as those of the programs."""
    tasks: str | Mapping[str, Mapping[str, Any]] | None = None
    """Reset keywords by the name of a task, or the function, as MODULE:FUNCTION, that returns them; None: there is one
    task."""
    game_keyword: str | None = None
    """The keyword of resets that chooses a game or a kind of task by its name; None: no single keyword does."""
    measured: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Fields of MeasuredTask by the name of the task. Without `reset` it is one of `tasks`."""
    bare: str | None = None
    """A function, as MODULE:FUNCTION: the field `bare` of every MeasuredTask."""
    optimum: str | None = None
    """A function, as MODULE:FUNCTION, that returns the Optimum for keywords of a reset, or None."""
    baseline: str | None = None
    """A function, as MODULE:FUNCTION, that returns the name of a good policy for keywords of a reset, or None."""
    remark: str | None = None
    """A function, as MODULE:FUNCTION: how often each action was chosen in each situation -> a sentence for a report of
    training; None where there is nothing to remark, as in another environment's situations."""
    policies: Mapping[str, Mapping[str, Any]] = field(default_factory=dict)
    """Policies that play this environment alone, by their names on every command line: see `openenv.policies`."""

    @property
    def folder(self) -> Path:
        """Where its files are."""
        return _FOLDER / f"{self.name}_env"

    @property
    def package(self) -> str:
        """The package of its folder, such as `openenv.envs.echo_env`."""
        return self.client.rpartition(".")[0]

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
        tasks: Mapping[str, Mapping[str, Any]] = (
            load_object(self.tasks)() if isinstance(self.tasks, str) else self.tasks
        )
        return tasks

    def load_measured(self) -> Mapping[str, MeasuredTask]:
        """Return what `openenv envs --measure` plays, by the name of the task. Raises ImportError without the extra.

        A task that is not among `tasks` here, because it needs a further package, is left out.
        """
        tasks = self.load_tasks()
        measured = {name: {"reset": tasks.get(name), **given} for name, given in self.measured.items()}
        return {name: self._measured_task(given) for name, given in measured.items() if given["reset"] is not None}

    def _measured_task(self, given: Mapping[str, Any]) -> MeasuredTask:
        functions = {"bare": self.bare, "heuristic": given.get("heuristic")}
        loaded = {name: None if path is None else load_object(path) for name, path in functions.items()}
        best = self.load_optimum(given["reset"])
        return MeasuredTask(**{"best_return": best and best.mean_return, **given, **loaded})

    def load_optimum(self, reset: Mapping[str, Any]) -> Optimum | None:
        """Return the exact result of best play with these reset keywords; None where it is not known."""
        found: Optimum | None = None if self.optimum is None else load_object(self.optimum)(**reset)
        return found

    def load_baseline(self, reset: Mapping[str, Any]) -> str | None:
        """Return the name of a good policy with these reset keywords; None where there is none."""
        found: str | None = None if self.baseline is None else load_object(self.baseline)(**reset)
        return found

    def load_environment(self) -> Environment[Any, Any, Any]:
        """Return an environment of this process, as the server makes it. Raises ImportError without the extra."""
        environment: Environment[Any, Any, Any] = importlib.import_module(self.server).program.environment()
        return environment


def remarks(decisions: Mapping[str, Mapping[str, int]]) -> Iterator[str]:
    """Yield what environments remark on these decisions: how often each action was chosen in each situation."""
    for entry in entries():
        if entry.remark is not None:
            remark: str | None = load_object(entry.remark)(decisions)
            if remark is not None:
                yield remark


def entry_of(message_class: type) -> CatalogEntry | None:
    """Return the bundled environment whose folder has the class of a message; None if none has."""
    return next((entry for entry in entries() if message_class.__module__.startswith(f"{entry.package}.")), None)


def load_object(path: str) -> Any:
    """Return what MODULE:NAME names. Raises ImportError or AttributeError."""
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
    for names in ("requires", "programs", "debian"):
        manifest[names] = tuple(manifest.get(names, ()))
    return CatalogEntry(**manifest)


def read_manifest(path: Path) -> dict[str, Any]:
    """Return the fields of an `openenv.yaml`. Raises ValueError unless it is a YAML mapping."""
    from openenv.formats.yaml_text import read_yaml  # keeps `import openenv` light

    manifest = read_yaml(path)
    if not isinstance(manifest, dict):
        raise ValueError(f"{path} must be a mapping with `name: ...`, got {type(manifest).__name__}")
    return manifest
