"""The folder of a session: a bare origin and a work tree. How it is built, looked at, saved and restored."""

import io
import shutil
import tarfile
import tempfile
from collections.abc import Mapping, Sequence
from functools import cached_property
from pathlib import Path

from openenv.envs.git_env.server.git_process import CONFIG, Completed, run_git
from openenv.envs.git_env.server.history import IMPORTED, History

MOST_SNAPSHOT_BYTES = 8_000_000
_ORIGIN, _WORK = "origin.git", "work"
_REMOTE = """[remote "origin"]
\turl = ../origin.git
\tfetch = +refs/heads/*:refs/remotes/origin/*
[branch "main"]
\tremote = origin
\tmerge = refs/heads/main
"""
_UNFINISHED = ("MERGE_HEAD", "CHERRY_PICK_HEAD", "REVERT_HEAD", "rebase-merge", "rebase-apply")
"""What .git contains while a command waits for its end."""


class Workspace:
    """A temporary folder with both repositories, which `close` removes."""

    def __init__(self) -> None:
        self._temporary = tempfile.TemporaryDirectory(prefix="openenv-git-")
        self.folder = Path(self._temporary.name).resolve()
        self.work, self.origin = self.folder / _WORK, self.folder / _ORIGIN

    def run(self, arguments: Sequence[str], clock: int = 0) -> Completed:
        """Run git in the work tree."""
        return run_git(arguments, self.folder, self.work, clock=clock)

    def build(self, history: History, setup: Sequence[Sequence[str]]) -> dict[int, str]:
        """Write a history to both repositories, then run commands of git. Returns the hash of each commit by its mark.

        Commits that only origin has are in the result too.
        """
        heads = {f"refs/heads/{name}": mark for name, mark in history.heads.items()}
        tracking = {f"refs/remotes/origin/{name}": mark for name, mark in history.tracking.items()}
        published = {f"refs/heads/{name}": mark for name, mark in history.published.items()}
        lost = {f"{IMPORTED}/{mark}": mark for mark in history.unreferenced}
        hashes = self._import(self.origin, self.origin, history.stream(published), "true")
        hashes |= self._import(self.work, self.work / ".git", history.stream({**tracking, **heads, **lost}), "false")
        named = {f":{mark}": name for mark, name in hashes.items()}
        for number, arguments in enumerate((("read-tree", "-u", "--reset", "HEAD"), *setup)):
            self._require(self.run([named.get(word, word) for word in arguments], clock=number - len(setup) - 1))
        return hashes

    def save(self) -> bytes:
        """Both repositories as a compressed archive. Raises ValueError if they are too large."""
        buffer = io.BytesIO()
        with tarfile.open(fileobj=buffer, mode="w:gz", compresslevel=1) as archive:
            for name in (_ORIGIN, _WORK):
                archive.add(self.folder / name, name)
        size = buffer.getbuffer().nbytes
        if size > MOST_SNAPSHOT_BYTES:
            raise ValueError(f"the repositories take {size} bytes; a snapshot has at most {MOST_SNAPSHOT_BYTES}")
        return buffer.getvalue()

    def load(self, archive: bytes) -> None:
        """Replace both repositories by saved ones."""
        for name in (_ORIGIN, _WORK):
            shutil.rmtree(self.folder / name, ignore_errors=True)
        with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as opened:
            opened.extractall(self.folder, filter="data")

    def close(self) -> None:
        """Remove the folder."""
        self._temporary.cleanup()

    def _import(self, place: Path, git_folder: Path, stream: bytes, bare: str) -> dict[int, str]:
        """An empty repository with a stream imported; returns the hashes by mark."""
        for name in ("objects", "refs/heads", "refs/tags", "info"):
            (git_folder / name).mkdir(parents=True)
        (git_folder / "HEAD").write_text("ref: refs/heads/main\n", encoding="utf-8")
        config = CONFIG.format(bare=bare) + (_REMOTE if bare == "false" else "")
        (git_folder / "config").write_text(config, encoding="utf-8")
        marks = self.folder / "marks"
        arguments = ["fast-import", "--quiet", f"--export-marks={marks}"]
        self._require(run_git(arguments, self.folder, place, stdin=stream))
        shutil.rmtree(git_folder / IMPORTED)
        rows = (row.split() for row in marks.read_text(encoding="utf-8").splitlines())
        return {int(mark[1:]): name for mark, name in rows}

    def _require(self, completed: Completed) -> None:
        if completed.exit_code != 0:
            raise RuntimeError(f"git failed while the repositories were built: {completed.stderr.strip()}")


class RepositoryView:
    """What both repositories contain, for the checks of a task."""

    def __init__(self, workspace: Workspace, hashes: Mapping[int, str]) -> None:
        self._workspace = workspace
        self.hashes = hashes
        """Of the commits at the start, by mark."""

    @cached_property
    def refs(self) -> dict[str, str]:
        """Branches and tags with their hashes: `heads/main`, `tags/v1`, and `origin/heads/main` of origin."""
        work, origin = (self._refs_of(place) for place in (self._workspace.work, self._workspace.origin))
        return {**work, **{f"origin/{name}": value for name, value in origin.items()}}

    @cached_property
    def is_clean(self) -> bool:
        """Whether nothing is changed and not committed, and no merge, rebase, cherry-pick or revert is under way."""
        folder = self._workspace.work / ".git"
        return self._printed("", "status", "--porcelain") == "" and not any(
            (folder / name).exists() for name in _UNFINISHED
        )

    def parents(self, ref: str) -> list[str] | None:
        """The hashes of a commit's parents; None if there is no such ref."""
        found = self._printed(ref, "rev-list", "--parents", "-n1", self._hash(ref), "--")
        return found.split()[1:] if found else None

    def message(self, ref: str) -> str:
        """The message of a commit."""
        return self._printed(ref, "log", "-n1", "--format=%B", self._hash(ref), "--").strip()

    def tree(self, ref: str) -> dict[str, str]:
        """The hash of each file of a commit by its path."""
        rows = self._printed(ref, "ls-tree", "-r", "-z", self._hash(ref)).split("\0")
        return {path: entry.split()[2] for entry, _, path in (row.partition("\t") for row in rows if row)}

    def contains(self, ref: str, commit: str) -> bool:
        """Whether a commit is an ancestor of a ref, or the ref itself."""
        return commit in self._printed(ref, "rev-list", self._hash(ref), "--").split()

    def subjects(self, ref: str, after: str) -> list[str]:
        """The first lines of the messages of the commits that a ref has and `after` lacks, newest first."""
        return self._printed(ref, "log", "--format=%s", f"{after}..{self._hash(ref)}", "--").splitlines()

    def object_type(self, ref: str) -> str:
        """The type of what a ref names, such as `tag` for an annotated tag."""
        return self._printed(ref, "cat-file", "-t", self._hash(ref)).strip()

    def target(self, ref: str) -> str:
        """The hash of the commit to which a tag leads."""
        return self._printed(ref, "rev-parse", "--verify", "-q", f"{self._hash(ref)}^{{commit}}").strip()

    def tag_message(self, ref: str) -> str:
        """The message of an annotated tag."""
        return self._printed(ref, "cat-file", "tag", self._hash(ref)).partition("\n\n")[2].strip()

    def _hash(self, ref: str) -> str:
        return self.refs.get(ref, ref)

    def _printed(self, ref: str, *arguments: str) -> str:
        """What git prints in the repository that has the ref; nothing where it fails."""
        workspace = self._workspace
        place = workspace.origin if ref.startswith("origin/") else workspace.work
        completed = run_git(arguments, workspace.folder, place)
        return completed.stdout if completed.exit_code == 0 else ""

    def _refs_of(self, place: Path) -> dict[str, str]:
        arguments = ["for-each-ref", "--format=%(refname) %(objectname)", "refs/heads", "refs/tags"]
        printed = run_git(arguments, self._workspace.folder, place).stdout
        rows = (row.rsplit(" ", 1) for row in printed.splitlines())
        return {name.removeprefix("refs/"): value for name, value in rows}
