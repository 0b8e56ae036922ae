"""Other names of modules: `alias("envs", "openenv.envs")` makes both names one tree of modules."""

import importlib
import importlib.util
import sys
from collections.abc import Callable, Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType
from typing import Any


class _AliasLoader(InspectLoader):
    """Loads the module of another name unchanged."""

    def __init__(self, real_name: str) -> None:
        self._real_name = real_name

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        """The module of the other name, which is imported if it was not."""
        module = importlib.import_module(self._real_name)
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        """It has run already. The import system has replaced its spec by the alias."""
        module.__spec__ = self._own_spec

    def get_code(self, fullname: str) -> CodeType | None:
        """The code that `python -m` runs."""
        spec = importlib.util.find_spec(self._real_name)
        assert spec is not None
        assert isinstance(spec.loader, InspectLoader)
        return spec.loader.get_code(self._real_name)

    def get_source(self, fullname: str) -> str | None:
        """Its source."""
        spec = importlib.util.find_spec(self._real_name)
        assert spec is not None
        assert isinstance(spec.loader, InspectLoader)
        return spec.loader.get_source(self._real_name)


class _AliasFinder(MetaPathFinder):
    """Finds `alias` and `alias.x` where `real` and `real.x` exist."""

    def __init__(self) -> None:
        self._real_names: dict[str, str] = {}

    def add(self, alias_name: str, real_name: str) -> None:
        """Let one more module have another name."""
        self._real_names[alias_name] = real_name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Called by the import system."""
        alias_name, rest = fullname, ""
        while alias_name not in self._real_names:
            alias_name, dot, last = alias_name.rpartition(".")
            if not dot:
                return None
            rest = f".{last}{rest}"
        real_name = self._real_names[alias_name] + rest
        found = importlib.util.find_spec(real_name)
        if found is None:
            return None
        return ModuleSpec(
            fullname, _AliasLoader(real_name), origin=found.origin, is_package=bool(found.submodule_search_locations)
        )


_FINDER = _AliasFinder()
sys.meta_path.insert(0, _FINDER)  # before the file finder, which would load a copy


def move(old_name: str, new_name: str) -> None:
    """Let `old_name`, which has no file, import the module `new_name`, and `old_name.x` its module x."""
    _FINDER.add(old_name, new_name)


def alias(alias_name: str, real_name: str) -> None:
    """Let a top-level name be that of a package, and `name.x` that of its module x. Call it in the package `name`."""
    move(alias_name, real_name)
    sys.modules[alias_name] = importlib.import_module(real_name)


def names_elsewhere(module_name: str, places: dict[str, str]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """`__getattr__` and `__dir__` for a module: a name of `places` is imported from its module at its first use.

    A name whose place is its own module, as `openenv.auto` is of `auto`, stands for that.
    """

    def get(name: str) -> Any:
        if name not in places:
            raise AttributeError(f"module {module_name!r} has no attribute {name!r}")
        module = importlib.import_module(places[name])
        value = module if places[name] == f"{module_name}.{name}" else getattr(module, name)
        setattr(sys.modules[module_name], name, value)
        return value

    return get, lambda: sorted({*vars(sys.modules[module_name]), *places})
