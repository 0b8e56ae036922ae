"""The rubric: a score of an action and its observation, with children that can be listed, found and watched."""

import difflib
import inspect
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from openenv.core.rubrics.evaluation import Steps, finish, run

PreHook = Callable[["Rubric", Any, Any], Any]
"""Takes the rubric, the action and the observation."""
Hook = Callable[["Rubric", Any, Any, float], Any]
"""Takes the rubric, the action, the observation and the score."""


class Rubric(ABC):
    """A part of a reward. Write `forward`, plainly or as a coroutine, and call the rubric.

    A rubric that is assigned to an attribute of another is its child, under the attribute's name:

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
    """What the latest evaluation gave; None before the first."""
    _forward_pre_hooks: tuple[PreHook, ...] = ()
    _forward_hooks: tuple[Hook, ...] = ()

    def __call__(self, action: Any, observation: Any) -> Any:
        """The score, between the hooks; or an awaitable of it, when `forward`, a child or a hook is asynchronous."""
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
        """The score of `action` and the `observation` that followed it, by custom from 0 to 1."""

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
        """All descendants with their paths, such as `code.syntax`. prefix: what the paths begin with."""
        for name, child in self.named_children():
            path = f"{prefix}.{name}" if prefix else name
            yield path, child
            yield from child.named_rubrics(path)

    def get_rubric(self, path: str) -> "Rubric":
        """The descendant at a path that `named_rubrics` lists. Raises KeyError when there is none."""
        known = dict(self.named_rubrics())
        if path not in known:
            raise KeyError(no_such(f"rubric path {path!r} in {type(self).__name__}", path, known))
        return known[path]

    def reset(self) -> None:
        """Forget the episode, and let the children forget it. Override it where a rubric remembers steps."""
        for child in self.children():
            child.reset()

    def state_dict(self) -> dict[str, Any]:
        """This rubric's own configuration, without its children's. Override it together with `load_state_dict`."""
        return {}

    def load_state_dict(self, state: dict[str, Any]) -> None:  # noqa: B027  optional: most rubrics have nothing to load
        """Take over what `state_dict` of a rubric of this class returned; a key that is missing changes nothing."""


def no_such(what: str, name: object, known: "dict[str, Rubric]") -> str:
    """Says that there is no `what`, and what there is: the names close to `name`, or all."""
    close = difflib.get_close_matches(str(name), known)
    if close:
        return f"no {what}: did you mean {' or '.join(map(repr, close))}?"
    return f"no {what}: there is {', '.join(map(repr, known)) or 'none at all'}"
