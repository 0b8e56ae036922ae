"""Finds the environments in a folder of Python source, without importing it."""

import ast
import os
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SourceType = Literal["gymnasium", "ors", "verifiers"]

_LEFT_OUT = {"__pycache__", "build", "dist", "node_modules", "venv"}
_BASES: dict[SourceType, tuple[str, set[str]]] = {
    "gymnasium": ("Env", {"gymnasium", "gymnasium.core", "gym", "gym.core"}),
    "ors": (
        "Environment",
        {
            "ors", "ors.environment", "openreward", "openreward.environment", "openreward.environments",
            "openreward.environments.environment",
        },
    ),
}  # fmt: skip
"""The base class of each type, and the modules that have it."""
LOADER = "load_environment"
"""The function that verifiers calls for an environment."""
SOURCE_TYPES: tuple[SourceType, ...] = (*_BASES, "verifiers")


@dataclass(frozen=True)
class FoundEnvironment:
    """A class that is an environment, or the function of verifiers that returns one."""

    source_type: SourceType
    module: str
    """Dotted path inside the folder; empty for its `__init__.py`."""
    class_name: str
    is_derived: bool
    """Whether it has the base class of its type; otherwise it only has the methods."""
    has_tools: bool = False
    """Whether an environment of verifiers is made with tools, as far as its source shows."""

    @property
    def qualified_name(self) -> str:
        """MODULE:CLASS."""
        return f"{self.module}:{self.class_name}"


def find_environments(folder: Path) -> list[FoundEnvironment]:
    """The environments of a folder. A file that imports verifiers has one if it has a function `load_environment`.

    A class is one of Gymnasium if it derives from `gymnasium.Env`, and one of ORS if it derives from
    `openreward.environments.Environment`, also by way of another class of the same file. Where no class derives from
    either, those with the methods `reset` and `step` are taken to be in Gymnasium's style.
    """
    found = [environment for path in sorted(_python_files(folder)) for environment in _of_file(folder, path)]
    derived = [environment for environment in found if environment.is_derived]
    return derived or found


def _python_files(folder: Path) -> Iterator[Path]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _LEFT_OUT and not name.startswith(".")]
        yield from (Path(parent, name) for name in names if name.endswith(".py"))


def _of_file(folder: Path, path: Path) -> Iterator[FoundEnvironment]:
    try:
        tree = ast.parse(path.read_text(encoding="utf-8"))
    except (SyntaxError, UnicodeDecodeError):
        return
    parts = path.relative_to(folder).with_suffix("").parts
    module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
    names = _imported_names(tree)
    if any(path.partition(".")[0] == "verifiers" for path in names.values()):
        if any(isinstance(node, ast.FunctionDef) and node.name == LOADER for node in tree.body):
            yield FoundEnvironment("verifiers", module, LOADER, is_derived=True, has_tools=_makes_tools(tree))
        return
    types: dict[str, SourceType] = {}
    for node in tree.body:
        if not isinstance(node, ast.ClassDef):
            continue
        bases = [_dotted(base) for base in node.bases]
        source_type = next((known for base in bases if (known := types.get(base) or _type_of(base, names))), None)
        if source_type is not None:
            types[node.name] = source_type
            yield FoundEnvironment(source_type, module, node.name, is_derived=True)
        elif not any(names.get(base.partition(".")[0], "").startswith("openenv") for base in bases) and _plays(node):
            yield FoundEnvironment("gymnasium", module, node.name, is_derived=False)


def _makes_tools(tree: ast.Module) -> bool:
    """Whether a call has the argument `tools`, as those of verifiers' classes with tools have."""
    calls = (node for node in ast.walk(tree) if isinstance(node, ast.Call))
    return any(keyword.arg == "tools" for call in calls for keyword in call.keywords)


def _imported_names(tree: ast.Module) -> dict[str, str]:
    """What the names of a module's imports stand for, as dotted paths."""
    names: dict[str, str] = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.update({alias.asname or alias.name: f"{node.module}.{alias.name}" for alias in node.names})
        elif isinstance(node, ast.Import):
            for alias in node.names:
                root = alias.name.partition(".")[0]
                names.update({alias.asname: alias.name} if alias.asname else {root: root})
    return names


def _type_of(base: str, names: dict[str, str]) -> SourceType | None:
    """The type whose base class a dotted name stands for."""
    first, _, rest = base.partition(".")
    path = ".".join(filter(None, (names.get(first, first), rest)))
    module, _, name = path.rpartition(".")
    return next((kind for kind, (wanted, modules) in _BASES.items() if name == wanted and module in modules), None)


def _dotted(node: ast.expr) -> str:
    """A base class as it is written, without type parameters."""
    return ast.unparse(node.value if isinstance(node, ast.Subscript) else node)


def _plays(node: ast.ClassDef) -> bool:
    """Whether a class has `reset`, and `step` with an action."""
    methods = {method.name: method for method in node.body if isinstance(method, ast.FunctionDef)}
    return "reset" in methods and "step" in methods and len(methods["step"].args.args) > 1
