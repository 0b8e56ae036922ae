"""Other names of this package's modules: `alias("envs", "openenv.envs")` makes both names one tree of modules."""

import importlib
import importlib.util
import sys
from collections.abc import Sequence
from importlib.abc import InspectLoader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import CodeType, ModuleType


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
    """Finds `alias.x` where `real.x` exists."""

    def __init__(self, alias_name: str, real_name: str) -> None:
        self._alias_name = alias_name
        self._real_name = real_name

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Called by the import system."""
        if not fullname.startswith(f"{self._alias_name}."):
            return None
        real_name = self._real_name + fullname.removeprefix(self._alias_name)
        found = importlib.util.find_spec(real_name)
        if found is None:
            return None
        return ModuleSpec(
            fullname, _AliasLoader(real_name), origin=found.origin, is_package=bool(found.submodule_search_locations)
        )


def alias(alias_name: str, real_name: str) -> None:
    """Let a top-level name be that of a package, and `name.x` that of its module x. Call it in the package `name`."""
    sys.meta_path.insert(0, _AliasFinder(alias_name, real_name))  # before the file finder, which would load a copy
    sys.modules[alias_name] = importlib.import_module(real_name)
