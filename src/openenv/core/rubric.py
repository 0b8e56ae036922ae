"""The base class of rubrics: a score of an action and its observation, with children and hooks.

A rubric may be asynchronous. It is evaluated synchronously if possible, else as a coroutine.
"""

import asyncio
import difflib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Generator, Iterator
from typing import Any

Steps = Generator[Any, Any, Any]
"""An evaluation as a generator: yields values that may be awaitable, receives their results, returns the score."""


class AwaitableScore(float):
    """A score that can also be awaited, for callers that do not know whether the rubric is asynchronous."""

    def __await__(self) -> Generator[None, None, float]:
        return float(self)
        yield  # makes this function a generator, as `await` requires


def must_be_awaited(value: Any) -> bool:
    """Whether `value` is an awaitable of a result that is not ready."""
    return inspect.isawaitable(value) and not isinstance(value, AwaitableScore)


def run(steps: Steps) -> Any:
    """Run an evaluation. Returns its score, or a coroutine of it if something must be awaited."""
    value = None
    try:
        while not must_be_awaited(value):
            value = steps.send(value)
    except StopIteration as end:
        return end.value
    return finish(steps, value)


async def finish(steps: Steps, value: Any = None) -> Any:
    """Finish an evaluation. value: what it yielded last."""
    try:
        while True:
            value = steps.send(await value if must_be_awaited(value) else value)
    except StopIteration as end:
        return end.value


def together(values: list[Any]) -> Any:
    """Return `values`, or a coroutine of them that awaits the awaitable ones concurrently.

    If one fails, the others are cancelled and its exception is raised.
    """
    return _gathered(values) if any(map(must_be_awaited, values)) else values


async def _gathered(values: list[Any]) -> list[Any]:
    try:
        async with asyncio.TaskGroup() as group:
            tasks = {n: group.create_task(_result(v)) for n, v in enumerate(values) if must_be_awaited(v)}
    except ExceptionGroup as failures:
        raise failures.exceptions[0] from None
    return [tasks[n].result() if n in tasks else value for n, value in enumerate(values)]


async def _result(awaitable: Any) -> Any:
    return await awaitable


PreHook = Callable[["Rubric", Any, Any], Any]
"""Takes the rubric, the action and the observation."""
Hook = Callable[["Rubric", Any, Any, float], Any]
"""Takes the rubric, the action, the observation and the score."""


class Rubric(ABC):
    """A part of a reward. Implement `forward` as a function or a coroutine, and call the rubric.

    A rubric that is assigned to an attribute of another is its child, with the attribute's name:

        class Answer(Rubric):
            def __init__(self):
                super().__init__()
                self.exact, self.brief = Exact(), Brief()

            def forward(self, action, observation):
                return 0.8 * self.exact(action, observation) + 0.2 * self.brief(action, observation)

        answer = Answer()
        reward = answer(action, observation)
        {name: part.last_score for name, part in answer.named_rubrics()}  # exact, brief
    """

    last_score: float | None = None
    """The score of the latest evaluation; None before the first."""
    _forward_pre_hooks: tuple[PreHook, ...] = ()
    _forward_hooks: tuple[Hook, ...] = ()

    def __call__(self, action: Any, observation: Any) -> Any:
        """Run the hooks and `forward`. Returns the score, or an awaitable if any of them is asynchronous."""
        steps = self._evaluation(action, observation)
        return finish(steps) if inspect.iscoroutinefunction(self.forward) else run(steps)

    def _evaluation(self, action: Any, observation: Any) -> Steps:
        for pre_hook in self._forward_pre_hooks:
            yield pre_hook(self, action, observation)
        score = yield self.forward(action, observation)
        self.last_score = score
        for hook in self._forward_hooks:
            yield hook(self, action, observation, score)
        return score

    @abstractmethod
    def forward(self, action: Any, observation: Any) -> float | Awaitable[float]:
        """The score of `action` and the `observation` that followed it, usually from 0 to 1."""

    def register_forward_hook(self, hook: Hook) -> None:
        """Call `hook(rubric, action, observation, score)` after every evaluation, in order of registration."""
        self._forward_hooks = (*self._forward_hooks, hook)

    def register_forward_pre_hook(self, hook: PreHook) -> None:
        """Call `hook(rubric, action, observation)` before every evaluation and those of the children."""
        self._forward_pre_hooks = (*self._forward_pre_hooks, hook)

    def children(self) -> Iterator["Rubric"]:
        """The rubrics that are attributes of this one."""
        for _, child in self.named_children():
            yield child

    def named_children(self) -> Iterator[tuple[str, "Rubric"]]:
        """The children with the names of their attributes, in order of assignment."""
        for name, value in list(vars(self).items()):
            if isinstance(value, Rubric):
                yield name, value

    def rubrics(self) -> Iterator["Rubric"]:
        """All descendants: each child, followed by its own."""
        for _, rubric in self.named_rubrics():
            yield rubric

    def named_rubrics(self, prefix: str = "") -> Iterator[tuple[str, "Rubric"]]:
        """All descendants with their paths, such as `code.syntax`. prefix: put before each path."""
        for name, child in self.named_children():
            path = f"{prefix}.{name}" if prefix else name
            yield path, child
            yield from child.named_rubrics(path)

    def get_rubric(self, path: str) -> "Rubric":
        """The descendant at a path that `named_rubrics` lists. Raises KeyError if there is none."""
        known = dict(self.named_rubrics())
        if path not in known:
            raise KeyError(no_such(f"rubric path {path!r} in {type(self).__name__}", path, known))
        return known[path]

    def scores(self) -> dict[str, float]:
        """The latest scores of all descendants by path, without those that have none yet.

        Training logs their means if the observation has them: `metadata={"rubric": self.rubric.scores()}`.
        """
        return {path: part.last_score for path, part in self.named_rubrics() if part.last_score is not None}

    def reset(self) -> None:
        """Reset the episode's state, also of the children. Override it in a rubric that stores steps."""
        for child in self.children():
            child.reset()

    def state_dict(self) -> dict[str, Any]:
        """This rubric's own configuration, without its children's. Override it together with `load_state_dict`."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027  optional: most rubrics have no configuration
        """Load the result of `state_dict`. Missing keys change nothing."""


def no_such(what: str, name: object, known: "dict[str, Rubric]") -> str:
    """An error message that there is no `what`, with the names close to `name`, or all names."""
    close = difflib.get_close_matches(str(name), known)
    if close:
        return f"no {what}: did you mean {' or '.join(map(repr, close))}?"
    return f"no {what}: there is {', '.join(map(repr, known)) or 'none'}"
