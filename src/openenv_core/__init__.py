"""The older name of `openenv.core`: the same package, module for module and object for object."""

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_OLD, _NEW = "openenv_core", "openenv.core"


class _Alias(Loader):
    """Loads the module of `openenv.core` unchanged."""

    def create_module(self, spec: ModuleSpec) -> ModuleType:
        module = importlib.import_module(_NEW + spec.name.removeprefix(_OLD))
        self._own_spec = module.__spec__
        return module

    def exec_module(self, module: ModuleType) -> None:
        module.__spec__ = self._own_spec  # the import system has replaced it with the alias


class _AliasFinder(MetaPathFinder):
    """Finds `openenv_core.x` where `openenv.core.x` exists."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if not fullname.startswith(f"{_OLD}."):
            return None
        found = importlib.util.find_spec(_NEW + fullname.removeprefix(_OLD))
        return None if found is None else importlib.util.spec_from_loader(fullname, _Alias())


warnings.warn(
    "openenv_core is the older name of openenv.core: import openenv.core instead", DeprecationWarning, stacklevel=2
)
sys.meta_path.insert(0, _AliasFinder())  # before the file finder, which would load each module twice
sys.modules[_OLD] = importlib.import_module(_NEW)
