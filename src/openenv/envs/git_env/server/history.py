"""A history of commits that is made in memory, and written to repositories by `git fast-import`."""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from random import Random

from openenv.envs.git_env.server.git_process import FIRST_DATE

Tree = Mapping[str, str]
"""The text of each file by its path."""
IMPORTED = "refs/import"
"""A folder of refs that is removed after the import."""
_SECONDS_A_COMMIT = 3_600
_AUTHORS = ("Ada Byron", "Grace Murray", "Linus Park", "Mary Keller")
_VOCABULARY = """
amber anchor apple arrow autumn basket beacon birch bottle bridge bronze candle canyon carpet castle cedar
cherry circle cliff cloud clover copper coral cotton crystal dawn desert ember feather fern field flame forest
fountain garden glacier granite harbor hazel hill horizon island ivory jasmine juniper lagoon lantern lemon
lilac maple marble meadow mint mirror moss mountain oak ocean olive orchard pebble pepper pine planet prairie
quartz rain reef ribbon river saddle saffron sand silver sky spring spruce stone storm summit thunder timber
tulip valley velvet violet walnut willow winter
"""
_FILES = ("README.md", "docs/guide.txt", "docs/notes.txt", "src/engine.txt", "src/parser.txt")
LINES = 6
"""Of each file."""


@dataclass(frozen=True, kw_only=True)
class Commit:
    """A commit: its marks are numbers from 1, in the order of the dates."""

    mark: int
    parents: tuple[int, ...]
    tree: Tree
    message: str


@dataclass
class History:
    """Commits, and where branches are in the work tree's repository and in origin."""

    rng: Random
    level: int
    commits: dict[int, Commit] = field(default_factory=dict)
    heads: dict[str, int] = field(default_factory=dict)
    """Local branches."""
    tracking: dict[str, int] = field(default_factory=dict)
    """Branches of origin when the work tree's repository was last brought up to date."""
    published: dict[str, int] = field(default_factory=dict)
    """Branches of origin."""

    unreferenced: list[int] = field(default_factory=list)
    """Commits of the work tree's repository that no branch has."""

    def __post_init__(self) -> None:
        self._words = self.rng.sample(_VOCABULARY.split(), len(_VOCABULARY.split()))

    def word(self) -> str:
        """A word that was not drawn before, while there are some."""
        return self._words.pop() if self._words else "".join(self.rng.choices("abcdefgh", k=8))

    def line(self) -> str:
        """A line that no file has."""
        return " ".join([self.word(), *self.rng.choices(_VOCABULARY.split(), k=2)])

    def tree(self, branch: str = "main") -> Tree:
        """The files of a local branch."""
        return self.commits[self.heads[branch]].tree

    def commit(self, tree: Tree, message: str, parents: Iterable[int]) -> int:
        """Add a commit; returns its mark."""
        mark = len(self.commits) + 1
        self.commits[mark] = Commit(mark=mark, parents=tuple(parents), tree=dict(tree), message=message)
        return mark

    def commit_on(self, branch: str, tree: Tree, message: str) -> int:
        """Add a commit to a local branch."""
        self.heads[branch] = self.commit(tree, message, [self.heads[branch]])
        return self.heads[branch]

    def begin(self) -> None:
        """Commits on main, which origin has too: the files, then some changes of a line."""
        names = _FILES[: 2 + self.level]
        files = {name: "".join(f"{self.line()}\n" for _ in range(LINES)) for name in names}
        self.heads["main"] = self.commit(files, "Start the project", [])
        for _ in range(2 + self.level):
            self.change_line("main")
        self.publish()

    def publish(self) -> None:
        """Let origin have all local branches."""
        self.tracking = dict(self.heads)
        self.published = dict(self.heads)

    def change_line(self, branch: str, spared: Iterable[str] = ()) -> int:
        """A commit that changes a line of a file. spared: files that it leaves alone."""
        tree = self.tree(branch)
        path = self.rng.choice(sorted(tree.keys() - set(spared)))
        number = self.rng.randint(1, tree[path].count("\n"))
        return self.commit_on(branch, changed(tree, path, number, self.line()), f"Change {path} to {self.word()}")

    def add_file(self, branch: str) -> int:
        """A commit that adds a file, which conflicts with no other."""
        path = f"notes/{self.word()}.txt"
        return self.commit_on(branch, {**self.tree(branch), path: f"{self.line()}\n"}, f"Add {path}")

    def stream(self, refs: Mapping[str, int]) -> bytes:
        """What `git fast-import` reads: the commits that refs need, and the refs."""
        needed = sorted(self._reachable(refs.values()))
        parts = [self._commit_stream(self.commits[mark]) for mark in needed]
        parts += [f"reset {name}\nfrom :{mark}\n\n".encode() for name, mark in refs.items()]
        return b"".join(parts)

    def _reachable(self, marks: Iterable[int]) -> set[int]:
        found: set[int] = set()
        waiting = list(marks)
        while waiting:
            mark = waiting.pop()
            if mark not in found:
                found.add(mark)
                waiting += self.commits[mark].parents
        return found

    def _commit_stream(self, commit: Commit) -> bytes:
        name = _AUTHORS[commit.mark % len(_AUTHORS)]
        date = FIRST_DATE - 100 * _SECONDS_A_COMMIT + commit.mark * _SECONDS_A_COMMIT
        person = f"{name} <{name.split()[0].lower()}@example.com> {date} +0000"
        lines = [
            f"commit {IMPORTED}/last\nmark :{commit.mark}\nauthor {person}\ncommitter {person}\n{_data(commit.message)}"
        ]
        lines += [f"{word} :{parent}\n" for word, parent in zip(("from", "merge"), commit.parents, strict=False)]
        lines += ["deleteall\n"]
        lines += [f"M 100644 inline {path}\n{_data(text)}" for path, text in commit.tree.items()]
        reset = "" if commit.parents else f"reset {IMPORTED}/last\n\n"
        return (reset + "".join(lines) + "\n").encode()


def _data(text: str) -> str:
    return f"data {len(text.encode())}\n{text}\n"


def changed(tree: Tree, path: str, number: int, line: str) -> Tree:
    """The files with one line replaced. number: of the line, from 1. line: may be several, or none."""
    lines = tree[path].splitlines(keepends=True)
    lines[number - 1] = f"{line}\n"
    return {**tree, path: "".join(lines)}


def blob(text: str) -> str:
    """The hash by which git names a file with this text."""
    data = text.encode()
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()
