"""Containers of rubrics: sequence, gate, weighted sum, list and dictionary.

If a child is asynchronous, the call of its container must be awaited too.
"""

import asyncio
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from openenv.core.rubric import AwaitableScore, Rubric, Steps, no_such, run, together

_TOLERANCE = 1e-6
"""Allowed difference of the sum of weights from 1."""


class _Container(Rubric):
    """A rubric whose score is computed from its children's."""

    def __call__(self, action: Any, observation: Any) -> Any:
        """The score. In a running event loop it can also be awaited, so that callers need not know the children."""
        score = super().__call__(action, observation)
        return AwaitableScore(score) if isinstance(score, int | float) and _loop_is_running() else score


class _Numbered(_Container):
    """A container of children named rubric_0, rubric_1, ..."""

    def __init__(self, rubrics: Iterable[Rubric]) -> None:
        super().__init__()
        self._size = 0
        for rubric in rubrics:
            self._add(rubric)

    def _add(self, rubric: Rubric) -> None:
        name = f"rubric_{self._size}"
        setattr(self, name, _checked(rubric, f"{type(self).__name__}: {name}"))
        self._size += 1

    def __len__(self) -> int:
        return self._size

    def __iter__(self) -> Iterator[Rubric]:
        return (getattr(self, f"rubric_{n}") for n in range(self._size))

    def __getitem__(self, index: int) -> Rubric:
        return list(self)[index]


class Sequential(_Numbered):
    """The score of the last child, or 0 if a child scores 0; the children after that one are not evaluated."""

    def __init__(self, *rubrics: Rubric) -> None:
        """rubrics: in the order of evaluation. Without any the score is 1."""
        super().__init__(rubrics)

    def forward(self, action: Any, observation: Any) -> Any:
        """The last child's score, or 0."""
        return run(self._in_order(action, observation))

    def _in_order(self, action: Any, observation: Any) -> Steps:
        score = 1.0
        for rubric in self:
            score = yield rubric(action, observation)
            if score == 0.0:
                return 0.0
        return score


class Gate(_Container):
    """The child's score if it reaches the threshold, else 0."""

    def __init__(self, rubric: Rubric, threshold: float = 1.0) -> None:
        """threshold: the minimum score that passes. Raises ValueError for NaN."""
        super().__init__()
        if math.isnan(threshold):
            raise ValueError(f"threshold={threshold}: no score can be compared with NaN. Give a number.")
        self.rubric = _checked(rubric, "Gate: rubric")
        self.threshold = threshold

    def forward(self, action: Any, observation: Any) -> Any:
        """The child's score, or 0 if it is below the threshold."""
        return run(self._passed(action, observation))

    def _passed(self, action: Any, observation: Any) -> Steps:
        score = yield self.rubric(action, observation)
        return 0.0 if score < self.threshold else score


class WeightedSum(_Numbered):
    """The sum of the children's scores, each multiplied by its weight. Asynchronous children run concurrently."""

    def __init__(self, rubrics: list[Rubric], weights: list[float]) -> None:
        """weights: one for each rubric, with a sum of 1. Raises ValueError otherwise."""
        super().__init__(rubrics)
        _check_weights(list(weights), len(self))
        self._weights = list(weights)

    def forward(self, action: Any, observation: Any) -> Any:
        """The weighted sum of the children's scores."""
        return run(self._sum(action, observation))

    def _sum(self, action: Any, observation: Any) -> Steps:
        scores = yield together([rubric(action, observation) for rubric in self])
        return sum((score * weight for score, weight in zip(scores, self._weights, strict=True)), 0.0)

    @property
    def weights(self) -> list[float]:
        """A copy of the weights, in the order of the children."""
        return list(self._weights)


class RubricList(_Numbered):
    """A list of children that can grow. It has no score: the rubric that contains it evaluates its children."""

    def __init__(self, rubrics: list[Rubric] | None = None) -> None:
        """rubrics: the first children."""
        super().__init__(rubrics or [])

    def forward(self, action: Any, observation: Any) -> float:
        """Raises NotImplementedError: a list has no score of its own."""
        raise NotImplementedError(_no_score(self, "rubrics[0](action, observation)"))

    def append(self, rubric: Rubric) -> None:
        """Add a child at the end."""
        self._add(rubric)

    def extend(self, rubrics: list[Rubric]) -> None:
        """Add several children at the end."""
        for rubric in rubrics:
            self._add(rubric)


class RubricDict(_Container):
    """Children by name, such as one for each task. It has no score: the rubric that contains it evaluates them."""

    def __init__(self, rubrics: dict[str, Rubric] | None = None) -> None:
        """rubrics: the first children."""
        super().__init__()
        self._by_name: dict[str, Rubric] = {}
        self.update(rubrics or {})

    def forward(self, action: Any, observation: Any) -> float:
        """Raises NotImplementedError: a dictionary has no score of its own."""
        raise NotImplementedError(_no_score(self, "rubrics[observation.task](action, observation)"))

    def named_children(self) -> Iterator[tuple[str, Rubric]]:
        """The children with their keys, in order of insertion."""
        yield from super().named_children()
        yield from self._by_name.items()

    def __setitem__(self, key: str, rubric: Rubric) -> None:
        if not isinstance(key, str):
            raise TypeError(f"RubricDict key {key!r} is {type(key).__name__}: a key is part of a path. Use a string.")
        self._by_name[key] = _checked(rubric, f"RubricDict: {key!r}")

    def __getitem__(self, key: str) -> Rubric:
        if key not in self._by_name:
            raise KeyError(no_such(f"rubric {key!r} in RubricDict", key, self._by_name))
        return self._by_name[key]

    def __getattr__(self, name: str) -> Rubric:
        """A child as an attribute, as in `rubrics.pong`, unless another attribute has that name."""
        known = self.__dict__.get("_by_name", {})
        if name not in known:
            raise AttributeError(no_such(f"attribute or rubric {name!r} in RubricDict", name, known))
        child: Rubric = known[name]
        return child

    def __contains__(self, key: str) -> bool:
        return key in self._by_name

    def __len__(self) -> int:
        return len(self._by_name)

    def __iter__(self) -> Iterator[str]:
        return iter(self._by_name)

    def keys(self) -> Iterator[str]:
        """The names."""
        return iter(self._by_name)

    def values(self) -> Iterator[Rubric]:
        """The children."""
        return iter(self._by_name.values())

    def items(self) -> Iterator[tuple[str, Rubric]]:
        """Names with children."""
        return iter(self._by_name.items())

    def update(self, rubrics: Mapping[str, Rubric]) -> None:
        """Add or replace children."""
        for name, rubric in rubrics.items():
            self[name] = rubric


def _checked(rubric: Rubric, where: str) -> Rubric:
    """`rubric`, which may also be a plain function of action and observation. Raises TypeError for anything else."""
    if isinstance(rubric, type):
        raise TypeError(f"{where} is the class {rubric.__name__}: pass an instance, {rubric.__name__}(...)")
    if not callable(rubric):
        raise TypeError(f"{where} is {rubric!r}: pass a Rubric, which takes an action and an observation")
    return rubric


def _check_weights(weights: list[float], count: int) -> None:
    if len(weights) != count:
        raise ValueError(
            f"{len(weights)} weights for {count} rubrics: their numbers must match, one weight for each rubric"
        )
    total = sum(weights)
    if abs(total - 1.0) <= _TOLERANCE:
        return
    scaled = math.isfinite(total) and abs(total) > _TOLERANCE
    remedy = f"Use {[round(weight / total, 6) for weight in weights]}." if scaled else "Change them."
    raise ValueError(f"weights={weights} sum to {total:.6g}: they must sum to 1.0. {remedy}")


def _no_score(rubric: Rubric, example: str) -> str:
    name = type(rubric).__name__
    return f"{name} has no score of its own: put it into a rubric whose forward() calls a child, as in {example}"


def _loop_is_running() -> bool:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return False
    return True
