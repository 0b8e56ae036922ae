"""Reads, writes and lists files of a work tree. No path leaves it, follows a symbolic link, or enters .git."""

import os
from pathlib import Path

from openenv.envs.git_env.server.allowed import Refused

MOST_FILES = 200
_LONGEST_PATH = 200
_MOST_READ = 100_000


def checked_path(work_tree: Path, path: str) -> Path:
    """The place of a path. Raises Refused unless it stays in the work tree."""
    parts = path.split("/")
    if path in ("", "."):
        return work_tree
    if len(path) > _LONGEST_PATH or "\\" in path or not path.isprintable():
        raise Refused(f"path={path[:80]!r}: expected at most {_LONGEST_PATH} printable characters, with `/` between.")
    if any(part in ("", ".", "..") for part in parts):
        raise Refused(f"path={path[:80]!r}: expected a path of the work tree, such as docs/notes.txt.")
    if any(part.lower().rstrip(". ") in (".git", "git~1") for part in parts):
        raise Refused(f"path={path[:80]!r}: the folder .git is changed by git alone. Name another path.")
    place = work_tree
    for part in parts:
        place /= part
        if place.is_symlink():
            raise Refused(f"path={path[:80]!r}: symbolic links are not followed. Name another path.")
    return place


def list_files(work_tree: Path, path: str) -> str:
    """The files of a folder and of those below it, a line each."""
    start = checked_path(work_tree, path)
    if not start.is_dir():
        raise Refused(f"path={path[:80]!r}: there is no such folder. `list_files` alone lists all files.")
    found: list[str] = []
    for folder, folders, files in os.walk(start):
        folders[:] = sorted(name for name in folders if name != ".git")
        found += [str(Path(folder, name).relative_to(work_tree)) for name in files if name != ".git"]
    return "".join(f"{name}\n" for name in sorted(found))


def read_file(work_tree: Path, path: str) -> str:
    """The text of a file."""
    place = checked_path(work_tree, path)
    if not place.is_file():
        raise Refused(f"path={path[:80]!r}: there is no such file. `list_files` lists them.")
    with os.fdopen(os.open(place, os.O_RDONLY | os.O_NOFOLLOW), "rb") as file:
        return file.read(_MOST_READ).decode(errors="replace")


def write_file(work_tree: Path, path: str, content: str) -> str:
    """Write a file, with the folders that it needs. Returns what was done."""
    place = checked_path(work_tree, path)
    try:
        data = content.encode()
    except UnicodeEncodeError:
        raise Refused("content: it contains a character that UTF-8 does not have. Leave it out.") from None
    if not place.exists() and list_files(work_tree, "").count("\n") >= MOST_FILES:
        raise Refused(f"path={path[:80]!r}: there are {MOST_FILES} files, which is the most. Remove one first.")
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        descriptor = os.open(place, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW, 0o644)
    except OSError:
        raise Refused(f"path={path[:80]!r}: a folder has that name, or a file is in the way. Name another.") from None
    with os.fdopen(descriptor, "wb") as file:
        file.write(data)
    return f"wrote {len(data)} bytes to {path}\n"
