"""The files of one commit of a git repository."""

import tempfile

from openenv.hosting.runtime.subprocess_tool import run_tool

_LIMIT_S = 600.0


def fetched_commit(url: str, commit: str) -> "tempfile.TemporaryDirectory[str]":
    """The files of a commit in a new folder, which is removed with the object that is returned. No hook runs.

    Args:
        url: of the repository, in a form of `git fetch`.
        commit: the name of a commit, a branch or a tag. The name of a commit is the digest of its files, which git
            checks: what differs is refused.

    Raises:
        ContainerFault: without git, and where the repository does not have the commit or may not be read.
    """
    folder = tempfile.TemporaryDirectory(prefix="openenv-git-")
    remedy = f"Does {url} have {commit}, and may this user read it?"
    for arguments in (
        ("init", "--quiet"),
        ("fetch", "--quiet", "--depth=1", "--", url, commit),
        ("-c", "core.hooksPath=/dev/null", "checkout", "--quiet", "FETCH_HEAD"),
    ):
        run_tool("git", "-C", folder.name, *arguments, remedy=remedy, timeout_s=_LIMIT_S)
    return folder
