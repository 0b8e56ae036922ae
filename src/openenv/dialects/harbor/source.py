"""Where the tasks of a name are: a folder of this machine, or one commit of a git repository."""

import re
import tempfile
from functools import cache
from pathlib import Path

from openenv.hosting.git_commit import fetched_commit

GIT = "git+"
_COMMIT = re.compile(r"(?P<url>.+)@(?P<commit>[0-9a-f]{40}|[0-9a-f]{64})")


def folder_of(target: str, subfolder: str = "") -> Path:
    """The folder of `PATH` or of `git+URL@COMMIT`, whose files are fetched, and a folder in it.

    A commit's name is the digest of its files, which git checks: what differs is refused. Raises ValueError for a URL
    without a whole commit and for a folder that leads out, ContainerFault where git fails.
    """
    is_git = target.startswith(GIT)
    root = Path(_fetched(target.removeprefix(GIT)).name) if is_git else Path(target).expanduser()
    folder = root / subfolder
    if not folder.resolve().is_relative_to(root.resolve()):
        raise ValueError(f"harbor:{target}: folder={subfolder!r} leads out of it")
    return folder


@cache
def _fetched(target: str) -> "tempfile.TemporaryDirectory[str]":
    """The files of a commit, in a folder that is removed when this process ends."""
    match = _COMMIT.fullmatch(target)
    if match is None:
        raise ValueError(
            f"harbor:{GIT}{target}: write {GIT}URL@COMMIT with the whole commit, 40 hexadecimal digits. `git ls-remote "
            "URL` prints those of its branches"
        )
    return fetched_commit(match["url"], match["commit"])
