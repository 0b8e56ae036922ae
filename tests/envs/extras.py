"""Modules of the environments' extras. `make test EXTRAS=envs` and `make test-envs` install all of them, `make test`
only the light ones."""

import importlib
import os
import shutil

import pytest

from openenv.envs.catalog import CatalogEntry

ALL_ARE_INSTALLED = os.environ.get("OPENENV_REQUIRE_EXTRAS") == "1"
"""Set by these two: a missing module is then an error, not a reason to skip."""


def require_extra(module: str, extra: str) -> None:
    """Skip the calling test module if a module of an extra is not installed."""
    if ALL_ARE_INSTALLED:
        importlib.import_module(module)
    else:
        pytest.importorskip(module, reason=f"needs the extra {extra}: make test-envs installs it")


def require_programs(*programs: str) -> None:
    """Skip the calling test or test module where a program of the system is missing: no extra installs it."""
    missing = [program for program in programs if shutil.which(program) is None]
    if missing:
        pytest.skip(f"needs {', '.join(missing)}, which no extra installs", allow_module_level=True)


def require_entry(entry: CatalogEntry) -> None:
    """Skip the calling test if the extra of an environment, or a program of the system, is not installed."""
    require_programs(*entry.programs)
    if entry.is_installed:
        return
    message = f"{entry.name} is not installed: {entry.remedy}"
    if ALL_ARE_INSTALLED:
        pytest.fail(message)
    pytest.skip(message)
