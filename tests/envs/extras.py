"""Modules of the environments' extras. `make test-envs` installs all of them, `make test` only the light ones."""

import importlib
import os
import shutil

import pytest

from openenv.envs.catalog import CatalogEntry

ALL_ARE_INSTALLED = os.environ.get("OPENENV_REQUIRE_EXTRAS") == "1"
"""Set by `make test-envs`: a missing module is then an error, not a reason to skip."""


def require_extra(module: str, extra: str) -> None:
    """Skip the calling test module if a module of an extra is not installed."""
    if ALL_ARE_INSTALLED:
        importlib.import_module(module)
    else:
        pytest.importorskip(module, reason=f"needs the extra {extra}: make test-envs installs it")


def require_program(program: str) -> None:
    """Skip the calling test module if a program is not installed."""
    if shutil.which(program) is None:
        message = f"needs the program {program}"
        if ALL_ARE_INSTALLED:
            raise FileNotFoundError(message)
        pytest.skip(message, allow_module_level=True)


def require_entry(entry: CatalogEntry) -> None:
    """Skip the calling test if the extra of an environment, or a program that it runs, is not installed."""
    if entry.is_installed:
        return
    message = f"{entry.name} is not installed: {entry.remedy}"
    if ALL_ARE_INSTALLED:
        pytest.fail(message)
    pytest.skip(message)
