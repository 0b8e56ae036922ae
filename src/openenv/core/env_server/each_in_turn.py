"""Environments of any author as a vector: each is stepped in turn, and their observations are stacked by field."""

import types
import typing
from collections import Counter
from collections.abc import Container, Mapping, Sequence
from typing import Annotated, Any, Literal, get_args, get_origin

import numpy as np

from openenv.core.arrays import is_array_field
from openenv.core.env_server.types import Action, Observation
from openenv.core.env_server.vector_environment import Batch, Column, DoesNotStack, VectorEnvironment, does_not_stack
from openenv.core.env_server.verbs import Verbs, is_truncated
from openenv.core.errors import RequestRefused, TimeLimitExceeded

_COMMON = frozenset({"done", "reward", "metadata"})
_Shapes = tuple[tuple[str, tuple[int, ...]], ...]


class EachInTurn(VectorEnvironment):
    """Steps one environment after the other.

    Numbers become arrays (N,), lists of floats and arrays become (N, ...), lists of integers stay ragged, and all else
    is a list: what stacks follows from the declared types, so that no step looks different from the last.
    """

    def __init__(self, verbs: Sequence[Verbs], action_cls: type[Action], observation_cls: type[Observation]) -> None:
        self._verbs = verbs
        self._action_cls = action_cls
        self._kinds = {
            name: "dense" if is_array_field(field) else _kind(field.annotation)
            for name, field in observation_cls.model_fields.items()
            if name not in _COMMON
        }
        self.ragged = frozenset(name for name, kind in self._kinds.items() if kind == "ragged")
        self.texts = frozenset(name for name, kind in self._kinds.items() if kind == "text")
        self._last: list[Observation | None] = [None] * len(verbs)
        self._requests: list[dict[str, Any]] = [{}] * len(verbs)
        self._shown: Observation | None = None
        """One of the last batch, with the shapes that all of it has."""

    def reset(self, env_ids: Sequence[int], requests: Sequence[Mapping[str, Any]]) -> Batch:
        """Raises DoesNotStack where the observations are of different shapes: a reset can be asked for again."""
        batch = self._begin(env_ids, requests)
        for error in batch.errors.values():
            if isinstance(error, DoesNotStack):
                raise error
        return batch

    def _begin(
        self, env_ids: Sequence[int], requests: Sequence[Mapping[str, Any]], *, beside_others: bool = False
    ) -> Batch:
        for env_id, request in zip(env_ids, requests, strict=True):
            self._requests[env_id] = dict(request)
        return self._batch(env_ids, [("reset", dict(request)) for request in requests], beside_others=beside_others)

    def begin_next(self, env_ids: Sequence[int]) -> Batch:
        """The episodes of the seeds that follow; see `next_seed`."""
        last = [self._requests[env_id] for env_id in env_ids]
        requests = [{**request, "seed": next_seed(request.get("seed", 0))} for request in last]
        return self._begin(env_ids, requests, beside_others=len(env_ids) < len(self._verbs))

    def step(self, env_ids: Sequence[int], actions: Mapping[str, Any]) -> Batch:
        names = list(actions)
        columns = [_plain(column) for column in actions.values()]
        rows: Sequence[tuple[Any, ...]] = list(zip(*columns, strict=True)) if columns else [()] * len(env_ids)
        return self._batch(env_ids, [("step", dict(zip(names, row, strict=True))) for row in rows])

    def action_fields(self) -> dict[str, Any]:
        schema = self._action_cls.model_json_schema()
        fields: dict[str, Any] = {}
        for name, said in schema["properties"].items():
            if name == "metadata" and name not in schema.get("required", ()):
                continue
            if said.get("type") == "integer" and said.get("minimum") == 0 and "maximum" in said:
                said = {"n": said["maximum"] + 1}
            fields[name] = {**said, "required": name in schema.get("required", ())}
        return fields

    def _batch(
        self, env_ids: Sequence[int], asked: Sequence[tuple[str, dict[str, Any]]], *, beside_others: bool = False
    ) -> Batch:
        """beside_others: whether the observations stand beside those of the last batch."""
        errors: dict[int, RequestRefused] = {}
        ends = [self._verbs[env_id].begin(verb, data) for env_id, (verb, data) in zip(env_ids, asked, strict=True)]
        for row, (env_id, end) in enumerate(zip(env_ids, ends, strict=True)):
            try:
                self._last[env_id] = end()
            except TimeLimitExceeded:
                raise  # it is the limit of them all
            except RequestRefused as error:
                errors[row] = error
        seen = [self._last[env_id] for env_id in env_ids]
        if all(observation is None for observation in seen):
            raise next(iter(errors.values()))
        stands_in = next(observation for observation in seen if observation is not None)
        observations = [stands_in if observation is None else observation for observation in seen]
        try:
            columns = self._columns(observations)
        except DoesNotStack:
            observations, odd = self._as_most_are(observations, errors, beside_others=beside_others)
            columns = self._columns(observations)
            errors = {**odd, **errors}
        self._shown = observations[0]
        reward = np.array([_number(observation.reward) for observation in observations], dtype=np.float64)
        done = np.array([observation.done for observation in observations], dtype=np.bool_)
        cut = np.array([is_truncated(observation) for observation in observations], dtype=np.bool_)
        for row in errors:
            reward[row], done[row] = np.nan, False
        return Batch(columns, reward, done & ~cut, done & cut, errors)

    def _as_most_are(
        self, observations: Sequence[Observation], failed: Container[int], *, beside_others: bool
    ) -> tuple[list[Observation], dict[int, RequestRefused]]:
        """Observations with one of the commonest shapes in the place of each that has others, and the errors of those.

        failed: rows that do not count, as what they show is old. beside_others: the shapes of the last batch are what
        is wanted, if any has them.
        Raises DoesNotStack where no observation so far had numbers in every field that is stacked.
        """
        shapes: list[_Shapes | DoesNotStack] = []
        for observation in observations:
            try:
                shapes.append(self._shapes(observation))
            except DoesNotStack as error:
                shapes.append(error)
        new = [one for row, one in enumerate(shapes) if row not in failed]
        counted = Counter(one for one in new if not isinstance(one, DoesNotStack))
        stands_in = self._shown
        if counted and (stands_in is None or not beside_others or self._shapes(stands_in) not in counted):
            stands_in = observations[shapes.index(counted.most_common(1)[0][0])]
        if stands_in is None:
            raise next(one for one in shapes if isinstance(one, DoesNotStack))
        common = self._shapes(stands_in)
        errors: dict[int, RequestRefused] = {}
        for row, one in enumerate(shapes):
            if isinstance(one, DoesNotStack):
                errors[row] = one
            elif one != common:
                mine, others = next(pair for pair in zip(one, common, strict=True) if pair[0] != pair[1])
                errors[row] = does_not_stack(mine[0], mine[1], others[1])
        return [stands_in if row in errors else one for row, one in enumerate(observations)], errors

    def _shapes(self, observation: Observation) -> _Shapes:
        """Of each field that is stacked. Raises DoesNotStack."""
        columns = self._columns([observation])
        return tuple((name, column.shape[1:]) for name, column in columns.items() if not isinstance(column, list))

    def _columns(self, observations: Sequence[Observation]) -> dict[str, Column]:
        columns = {name: _column(name, kind, observations) for name, kind in self._kinds.items()}
        if any(observation.metadata for observation in observations):
            columns["metadata"] = [observation.metadata for observation in observations]
        return columns


def _kind(annotation: Any) -> str:
    """How values of a declared type are put together: bool, int, float, text, ragged, dense, or list for what does
    not."""
    if get_origin(annotation) is Annotated:
        return _kind(get_args(annotation)[0])
    if annotation in (bool, int, float):
        return str(annotation.__name__)
    if isinstance(annotation, type) and issubclass(annotation, str):
        return "text"
    origin, arguments = get_origin(annotation), get_args(annotation)
    if origin is Literal and all(isinstance(value, str) for value in arguments):
        return "text"
    if origin in (typing.Union, types.UnionType):
        return "float" if set(arguments) == {float, type(None)} else "list"
    if origin in (list, tuple, Sequence) and arguments:
        if get_origin(arguments[0]) in (typing.Union, types.UnionType):
            return "list"
        inner = _kind(arguments[0])
        return "ragged" if inner == "int" and origin is list else "dense" if inner in _STACKS else "list"
    return "list"


_STACKS = frozenset({"bool", "int", "float", "dense", "ragged"})


def _column(name: str, kind: str, observations: Sequence[Observation]) -> Column:
    values = [getattr(observation, name, None) for observation in observations]
    if kind in ("list", "ragged", "text"):
        return values
    if kind == "float":
        values = [np.nan if value is None else value for value in values]
    try:
        column = np.array(values, dtype={"bool": np.bool_, "int": np.int64, "float": np.float64}.get(kind))
        if column.dtype.kind in "biuf":
            return column
        raise ValueError("no numbers")
    except (ValueError, TypeError, OverflowError):
        raise DoesNotStack(
            f"{name}: {values[0]!r:.80} is not the numbers of an array, and cannot be stacked: give it one shape"
        ) from None


def _number(reward: Any) -> float:
    return np.nan if reward is None else float(reward)


def _plain(column: Any) -> list[Any]:
    """A column as Python's own numbers, which pydantic validates strictly; rows of more dimensions stay arrays."""
    if isinstance(column, np.ndarray):
        return column.tolist() if column.ndim == 1 else list(column)
    return list(column)


def next_seed(seed: int) -> int:
    """The seed of the episode that an environment begins by itself after that of `seed` (SplitMix64, Steele 2014)."""
    mask = (1 << 64) - 1
    z = (seed + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return (z ^ (z >> 31)) >> 33
