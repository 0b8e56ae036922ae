"""Runs a command again whenever the Python files of a folder change."""

import os
import subprocess
import time
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import NoReturn

import typer

_LOOK_EVERY_S = 0.5
_LEFT_OUT = {"__pycache__", "node_modules", "venv"}
_WATCHED = (".py", ".yaml", ".yml")


def run_reloading(command: Sequence[str], folder: Path) -> NoReturn:
    """Run the command until interrupted, and anew after each change of a Python or YAML file below the folder.

    A command that ends by itself is run again after the next change.
    """
    while True:
        seen = _times(folder)
        process = subprocess.Popen(command)
        try:
            while _times(folder) == seen:
                try:
                    code = process.wait(_LOOK_EVERY_S)
                except subprocess.TimeoutExpired:
                    continue
                typer.echo(f"the server has ended with code {code}; it starts again after a change", err=True)
                _wait_for_change(folder, seen)
        finally:
            process.terminate()
            process.wait()
        typer.echo(f"{folder} has changed: the server starts again", err=True)


def _wait_for_change(folder: Path, seen: Mapping[str, int]) -> None:
    while _times(folder) == seen:
        time.sleep(_LOOK_EVERY_S)


def _times(folder: Path) -> dict[str, int]:
    """When each watched file was changed, in nanoseconds."""
    return dict(_files(folder))


def _files(folder: Path) -> Iterator[tuple[str, int]]:
    for parent, folders, names in os.walk(folder):
        folders[:] = [name for name in folders if name not in _LEFT_OUT and not name.startswith(".")]
        for name in names:
            if name.endswith(_WATCHED):
                path = os.path.join(parent, name)
                try:
                    yield path, os.stat(path).st_mtime_ns
                except FileNotFoundError:  # an editor has replaced it
                    yield path, 0
