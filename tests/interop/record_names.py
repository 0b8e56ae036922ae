"""Records the public names of the published package: `python -m tests.interop.record_names` with its Python.

The file that it writes is what `tests/core/test_published_signatures.py` walks; that test needs no published package.
"""

import importlib
import inspect
import json
import pkgutil
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

RECORD = Path(__file__).parent / "recorded" / "names.json"
ROOTS = ("openenv.core", "openenv.auto")


def recorded() -> dict[str, dict[str, dict[str, Any]]]:
    """Return the recorded names: module, name, and what stands under the name."""
    return json.loads(RECORD.read_text(encoding="utf-8"))["modules"]


def public_names(module: ModuleType) -> list[str]:
    """Return the names of `__all__`; without one, those without an underscore that the package itself defines."""
    declared = getattr(module, "__all__", None)
    if declared is not None:
        return sorted(declared)
    return sorted(name for name, value in vars(module).items() if name[0] != "_" and _is_own(name, value))


def _is_own(name: str, value: Any) -> bool:
    """Whether the package defines the value, in a module without an underscore; of other values, the capital names."""
    if isinstance(value, TypeVar):
        return True
    if not (inspect.isclass(value) or inspect.isroutine(value)):
        return name.isupper() and name != "TYPE_CHECKING"
    return value.__module__.startswith("openenv") and "._" not in value.__module__


def describe(value: Any) -> dict[str, Any]:
    """Return the kind of a value, its parameters, and for a class its methods, properties and members."""
    if inspect.isclass(value):
        return {"kind": "class", "parameters": parameters(value), **_contents(value)}
    if inspect.isroutine(value):
        return {"kind": "function", "parameters": parameters(value)}
    return {"kind": "module" if isinstance(value, ModuleType) else "constant"}


def parameters(callable_: Any) -> list[list[str]] | None:
    """Return name, kind and default of each parameter; None where there is no signature to read."""
    try:
        found = inspect.signature(callable_).parameters.values()
    except (TypeError, ValueError):
        return None
    return [[p.name, p.kind.name, _default(p.default)] for p in found if p.name not in ("self", "cls")]


def _default(value: Any) -> str:
    if value is inspect.Parameter.empty:
        return "required"
    simple = value is None or isinstance(value, bool | int | float | str)
    return repr(getattr(value, "value", value)) if simple else "some"


def _contents(cls: type) -> dict[str, Any]:
    own = {
        name: member
        for base in reversed(cls.__mro__)
        if base.__module__.startswith("openenv")
        for name, member in vars(base).items()
        if name[0] != "_"
    }
    methods = {
        name: parameters(getattr(cls, name))
        for name, member in own.items()
        if inspect.isfunction(member) or isinstance(member, classmethod | staticmethod)
    }
    contents: dict[str, Any] = {
        "methods": methods,
        "properties": sorted(name for name, member in own.items() if isinstance(member, property)),
        "fields": list(getattr(cls, "model_fields", ())),
        "members": [member.name for member in getattr(cls, "__members__", {}).values()],
    }
    return {key: value for key, value in contents.items() if value}


def record() -> None:
    """Write the record of the package that this Python imports as `openenv`."""
    names = ["openenv"]
    skipped = {}
    for root in ROOTS:
        names.append(root)
        names += [m.name for m in pkgutil.walk_packages(importlib.import_module(root).__path__, f"{root}.", _ignore)]
    modules = {}
    for name in sorted(names):
        if any(part.startswith(("_", "test_")) for part in name.split(".")):
            continue
        try:
            module = importlib.import_module(name)
            modules[name] = {key: describe(getattr(module, key)) for key in public_names(module)}
        except ImportError as error:
            skipped[name] = str(error)
    lines = ",\n".join(
        f" {json.dumps(name)}: {{\n"
        + ",\n".join(f"  {json.dumps(key)}: {json.dumps(value)}" for key, value in found.items())
        + "\n }"
        for name, found in modules.items()
    )
    RECORD.write_text(f'{{"skipped": {json.dumps(skipped)},\n"modules": {{\n{lines}\n}}}}\n', encoding="utf-8")
    print(f"{RECORD}: {sum(map(len, modules.values()))} names of {len(modules)} modules, {len(skipped)} skipped")


def _ignore(name: str) -> None:
    """A package that cannot be imported is recorded as skipped."""


if __name__ == "__main__":
    record()
