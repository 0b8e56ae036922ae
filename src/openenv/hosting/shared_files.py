"""Which files of an environment's folder are for others: no caches, no hidden files, and none that may hold secrets."""

import os
from collections.abc import Sequence
from pathlib import Path

from pathspec import GitIgnoreSpec

LEFT_OUT = (".*/", "__pycache__/", "*.pyc", "*.egg-info/", "build/", "venv/", "node_modules/")
"""Patterns, as in a .gitignore, of folders and files that no other machine needs."""
SECRETS = (
    ".env*", "*.env", "*.pem", "*.key", "*.p12", "*.pfx", "id_rsa*", "id_ed25519*", "credentials.json", "secrets.json",
    "secrets.toml", "secrets.yaml", "secrets.yml",
)  # fmt: skip
"""Patterns of files that hold secrets."""
_HIDDEN = (".*", "!.dockerignore")


def shared_files(folder: Path, excluded: Sequence[str] = ()) -> list[str]:
    """The paths within a folder of its files for others, and of links, sorted. excluded: patterns of further files to
    leave out."""
    return _files(folder, (*LEFT_OUT, *_HIDDEN, *SECRETS, *excluded))


def withheld_files(folder: Path, shared: Sequence[str]) -> list[str]:
    """The paths within a folder of files that are not shared because they may hold secrets."""
    secrets = _spec(SECRETS)
    return [path for path in _files(folder, LEFT_OUT) if secrets.match_file(path) and path not in shared]


def _files(folder: Path, left_out: Sequence[str]) -> list[str]:
    """The paths of the files of a folder, and of its links, that match no pattern."""
    spec = _spec(left_out)
    found: list[str] = []
    for parent, folders, names in os.walk(folder):
        inside = Path(parent).relative_to(folder)
        links = [name for name in folders if Path(parent, name).is_symlink()]
        folders[:] = [name for name in folders if not spec.match_file(f"{(inside / name).as_posix()}/")]
        found += ((inside / name).as_posix() for name in names + links)
    return sorted(path for path in found if not spec.match_file(path))


def _spec(patterns: Sequence[str]) -> GitIgnoreSpec:
    return GitIgnoreSpec.from_lines(patterns)
