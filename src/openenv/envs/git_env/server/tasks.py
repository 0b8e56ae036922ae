"""A task of a seed: repositories, what to do, and the checks of how the repositories should be at the end."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from openenv.envs.git_env.server.history import History, Tree, blob
from openenv.envs.git_env.server.repository import RepositoryView
from openenv.rubrics import Rubric

Check = Callable[[RepositoryView], bool]
SHORTEST_HASH = 7


@dataclass(frozen=True, kw_only=True)
class Request:
    """What a kind of task asks for."""

    text: str
    checks: Mapping[str, Check]
    """By the name of the rubric's part."""
    changes: frozenset[str] = frozenset()
    """The refs that may change, such as `heads/main` and `origin/heads/main`."""
    setup: Sequence[Sequence[str]] = ()
    """Commands of git that are run after the repositories are built; `:3` stands for the hash of the commit 3."""
    answer: int | None = None
    """The mark of the commit that is the right answer; None where none is asked for."""


@dataclass
class Task:
    """The task of an episode."""

    request: Request
    history: History
    hashes: dict[int, str] = field(default_factory=dict)
    """Of the commits at the start, by mark."""

    @property
    def refs(self) -> dict[str, str]:
        """The hashes of the branches at the start, named as in `Request.changes`."""
        heads = {f"heads/{name}": mark for name, mark in self.history.heads.items()}
        published = {f"origin/heads/{name}": mark for name, mark in self.history.published.items()}
        return {name: self.hashes[mark] for name, mark in (heads | published).items()}


class Part(Rubric):
    """1 if a check holds, else 0."""

    def __init__(self, check: Callable[[str | None, RepositoryView], bool]) -> None:
        super().__init__()
        self._check = check

    def forward(self, action: str | None, observation: RepositoryView) -> float:
        """action: the answer. observation: the repositories."""
        return float(self._check(action, observation))


class Goal(Rubric):
    """1 if all parts are 1, else 0. The parts: the task's checks, `untouched`, `clean`, and `answer` if one is due."""

    def __init__(self, task: Task) -> None:
        super().__init__()
        for name, check in task.request.checks.items():
            setattr(self, name, Part(_without_answer(check)))
        self.untouched = Part(lambda _, view: is_untouched(task, view))
        self.clean = Part(lambda _, view: view.is_clean)
        if task.request.answer is not None:
            right = task.hashes[task.request.answer]
            self.answer = Part(lambda given, _: is_hash(right, given))

    def forward(self, action: str | None, observation: RepositoryView) -> float:
        """action: the answer. observation: the repositories."""
        return float(min([part(action, observation) for part in self.children()]))


def is_untouched(task: Task, view: RepositoryView) -> bool:
    """Whether all branches and tags but those that the task changes are as they were, and there are no others."""
    before = task.refs
    names = (before.keys() | view.refs.keys()) - task.request.changes
    return all(before.get(name) == view.refs.get(name) for name in names)


def is_hash(right: str, given: str | None) -> bool:
    """Whether an answer is the hash, or at least its first seven digits."""
    word = (given or "").strip().lower()
    return len(word) >= SHORTEST_HASH and right.startswith(word)


def commit_checks(ref: str, parents: Sequence[int], tree: Tree, message: str | None = None) -> dict[str, Check]:
    """Checks of the commit of a ref: its parents, its files, and its message unless any will do."""
    files = {path: blob(text) for path, text in tree.items()}
    checks: dict[str, Check] = {
        "parents": lambda view: view.parents(ref) == [view.hashes[mark] for mark in parents],
        "content": lambda view: view.tree(ref) == files,
    }
    if message is not None:
        checks["message"] = lambda view: view.message(ref) == message
    return checks


def is_at(ref: str, mark: int) -> Check:
    """Whether a ref is a commit of the start."""
    return lambda view: view.refs.get(ref) == view.hashes[mark]


def _without_answer(check: Check) -> Callable[[str | None, RepositoryView], bool]:
    return lambda _, view: check(view)
