"""Imports the copied source of an imported environment, whose modules import each other as they did before."""

import sys
from importlib import import_module
from pathlib import Path
from typing import Any


def vendored(source: Path, module: str, name: str) -> Any:
    """The object `name` of a module of the folder `source`; its modules are then importable as in that folder.

    module: dotted path inside the folder; empty for its `__init__.py`. Raises ImportError with the module's own reason,
    and AttributeError where it has no such name.
    """
    is_package = (source / "__init__.py").is_file()
    for folder in (source.parent, source):
        if str(folder) not in sys.path:
            sys.path.insert(0, str(folder))
    parts = [source.name] if is_package else []
    return getattr(import_module(".".join([*parts, *filter(None, [module])])), name)
