"""A vector of any environments: each is stepped in turn, and observations are stacked by field."""

import types
import typing
from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Literal, NamedTuple, get_args, get_origin

import numpy as np

from openenv.core.env_server.runner.env_runner import EnvRunner, is_truncated, not_finite
from openenv.core.env_server.types import Action, Observation
from openenv.core.env_server.vector_environment import (
    Column,
    ShapeMismatch,
    VectorBatch,
    VectorEnvironment,
    copied,
    shape_mismatch,
)
from openenv.core.errors import EnvironmentFault, RequestRefused, TimeLimitExceeded
from openenv.core.wire.arrays import is_array_field
from openenv.schema.samples import resolved

_COMMON_FIELDS = frozenset({"done", "reward", "metadata"})
_DTYPES = {"bool": np.bool_, "int": np.int64, "float": np.float64}
_NUMBERS = frozenset({bool, int, float})
_BOUNDED_KINDS = frozenset({"int", "float"})
_BOUNDS = frozenset({"minimum", "maximum"})
_STACKED_KINDS = frozenset({"bool", "int", "float", "dense", "ragged"})

_Shapes = dict[str, tuple[int, ...]]


class SyncVectorEnvironment(VectorEnvironment):
    """Steps one environment after another.

    Numbers become arrays (N,), lists of floats and arrays become (N, ...), lists of integers stay ragged, and all other
    fields become lists. The declared types decide, so that every step has the same form. The first observations fix the
    shapes. An environment whose observation has another shape fails with a ShapeMismatch; the others go on.
    """

    def __init__(self, runners: Sequence[EnvRunner], action_cls: type[Action], observation_cls: type[Observation]):
        self._runners = runners
        self._action_cls = action_cls
        self._observation_cls = observation_cls
        self._kinds = {
            name: "dense" if is_array_field(field) else _kind(field.annotation)
            for name, field in observation_cls.model_fields.items()
            if name not in _COMMON_FIELDS
        }
        self._mutable = [
            (place, kind in ("dense", "ragged"))
            for place, kind in enumerate(self._kinds.values())
            if kind in ("dense", "ragged", "list")
        ]
        """Places of the fields whose values an environment may change later, and whether those are numbers."""
        self.ragged_fields = frozenset(name for name, kind in self._kinds.items() if kind == "ragged")
        self.text_fields = frozenset(name for name, kind in self._kinds.items() if kind == "text")
        self._last: list[_Row | None] = [None] * len(runners)
        """The last observation of each environment that has the fixed shapes."""
        self._requests: list[dict[str, Any]] = [{}] * len(runners)
        self._shapes: _Shapes | None = None

    def reset(self, env_ids: Sequence[int], requests: Sequence[Mapping[str, Any]]) -> VectorBatch:
        for env_id, request in zip(env_ids, requests, strict=True):
            self._requests[env_id] = dict(request)
        return self._batch(env_ids, "reset", requests)

    def autoreset(self, env_ids: Sequence[int]) -> VectorBatch:
        """The episodes of the seeds that follow; see `next_seed`."""
        for env_id in env_ids:
            request = self._requests[env_id]
            self._requests[env_id] = {**request, "seed": next_seed(request.get("seed", 0))}
        return self._batch(env_ids, "reset", [self._requests[env_id] for env_id in env_ids])

    def step(self, env_ids: Sequence[int], actions: Mapping[str, Any]) -> VectorBatch:
        names = list(actions)
        columns = [_values(column) for column in actions.values()]
        rows: Sequence[tuple[Any, ...]] = list(zip(*columns, strict=True)) if columns else [()] * len(env_ids)
        return self._batch(env_ids, "step", [dict(zip(names, row, strict=True)) for row in rows])

    def action_fields(self) -> dict[str, Any]:
        schema = self._action_cls.model_json_schema()
        fields: dict[str, Any] = {}
        for name, declared in schema["properties"].items():
            if name == "metadata" and name not in schema.get("required", ()):
                continue
            field = resolved(schema, declared)
            largest = field.get("maximum", field.get("exclusiveMaximum", np.inf) - 1)
            if field.get("type") == "integer" and field.get("minimum") == 0 and largest < np.inf:
                field = {"n": largest + 1}
            fields[name] = {**field, "required": name in schema.get("required", ())}
        return fields

    def observation_fields(self) -> dict[str, Any]:
        """The declared bounds of fields that are numbers."""
        schema = self._observation_cls.model_json_schema()
        fields = {name: resolved(schema, schema["properties"].get(name)) for name in self._kinds}
        return {
            name: {key: field[key] for key in _BOUNDS if key in field}
            for name, field in fields.items()
            if self._kinds[name] in _BOUNDED_KINDS and not _BOUNDS.isdisjoint(field)
        }

    def _batch(self, env_ids: Sequence[int], verb: str, requests: Sequence[Mapping[str, Any]]) -> VectorBatch:
        """Run a verb in each environment. Raises the first error if no environment has an observation to show."""
        errors: dict[int, RequestRefused] = {}
        results = [
            self._runners[env_id].start(verb, dict(data)) for env_id, data in zip(env_ids, requests, strict=True)
        ]
        read: list[_Row | None] = []
        for row, (env_id, result) in enumerate(zip(env_ids, results, strict=True)):
            try:
                read.append(self._read(result()))  # at once: an environment may reuse the observation's lists
            except TimeLimitExceeded:
                raise  # the limit is that of the whole request
            except RequestRefused as error:
                errors[row] = error
                read.append(self._last[env_id])
        try:
            columns = self._columns(self._shown(read, errors))
        except ShapeMismatch:
            self._refuse_shapes(env_ids, read, errors)
            columns = self._columns(self._shown(read, errors))
        shown = self._shown(read, errors)
        for row, env_id in enumerate(env_ids):
            if row not in errors:
                self._last[env_id] = shown[row]
        reward = np.array([one.reward for one in shown], dtype=np.float64)
        done = np.array([one.done for one in shown], dtype=np.bool_)
        cut = np.array([one.truncated for one in shown], dtype=np.bool_)
        for row in errors:
            reward[row], done[row] = np.nan, False
        return VectorBatch(columns, reward, done & ~cut, done & cut, errors)

    def _read(self, observation: Observation) -> "_Row":
        """The values of an observation now. Raises EnvironmentFault for a reward that is no finite number."""
        values = [getattr(observation, name, None) for name in self._kinds]
        for place, has_numbers in self._mutable:
            value: Any = values[place]
            is_flat = has_numbers and type(value) is list and value and type(value[0]) in _NUMBERS
            values[place] = value[:] if is_flat else copied(value)
        given = observation.reward
        try:
            reward = np.nan if given is None else float(given)
        except OverflowError:  # an integer beyond the floats
            reward = np.inf
        if given is not None and reward - reward != 0:
            raise EnvironmentFault(not_finite(given))
        metadata = observation.metadata
        return _Row(values, copied(metadata) if metadata else {}, reward, observation.done, is_truncated(observation))

    def _shown(self, read: Sequence["_Row | None"], errors: Mapping[int, RequestRefused]) -> list["_Row"]:
        """The observations, with another one of the vector for each that failed before its first."""
        placeholder = next((one for one in [*read, *self._last] if one is not None), None)
        if placeholder is None:
            raise next(iter(errors.values()))
        return [placeholder if one is None else one for one in read]

    def _refuse_shapes(
        self, env_ids: Sequence[int], read: list["_Row | None"], errors: dict[int, RequestRefused]
    ) -> None:
        """Add an error for each row without the fixed shapes, and show its last observation instead."""
        for row, env_id in enumerate(env_ids):
            one = read[row]
            if one is None or row in errors:
                continue
            try:
                self._columns([one])
            except ShapeMismatch as error:
                errors[row] = error
                read[row] = self._last[env_id]

    def _columns(self, rows: Sequence["_Row"]) -> dict[str, Column]:
        """Stack observations by field; the first fix the shapes. Raises ShapeMismatch."""
        columns: dict[str, Column] = {}
        for place, (name, kind) in enumerate(self._kinds.items()):
            values = [row.values[place] for row in rows]
            columns[name] = values if kind in ("list", "ragged", "text") else _array(name, kind, values)
        shapes = {name: column.shape[1:] for name, column in columns.items() if not isinstance(column, list)}
        if self._shapes is None:
            self._shapes = shapes
        for name, shape in shapes.items():
            if shape != self._shapes[name]:
                raise shape_mismatch(name, shape, self._shapes[name])
        if any(row.metadata for row in rows):
            columns["metadata"] = [row.metadata for row in rows]
        return columns


class _Row(NamedTuple):
    """What one environment returned, which no later step changes."""

    values: list[Any]
    """In the order of the fields."""
    metadata: Any
    reward: float
    """NaN for no reward."""
    done: bool
    truncated: bool


def _kind(annotation: Any) -> str:
    """How values of a declared type are stacked: bool, int, float, dense, ragged, or as a list of text or of others."""
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
        return "ragged" if inner == "int" and origin is list else "dense" if inner in _STACKED_KINDS else "list"
    return "list"


def _array(name: str, kind: str, values: Any) -> np.ndarray[Any, np.dtype[Any]]:
    """Values of one field as an array of numbers. Raises ShapeMismatch."""
    if kind == "float":
        values = [np.nan if value is None else value for value in values]
    try:
        array = np.array(values, dtype=_DTYPES.get(kind))
        if array.dtype.kind in "biuf":
            return array
        raise ValueError("no numbers")
    except (ValueError, TypeError, OverflowError):
        raise ShapeMismatch(f"{name}: {values[0]!r:.80} is not an array of numbers: give the field one shape") from None


def _values(column: Any) -> list[Any]:
    """The rows of a column. Numbers become Python's own, which pydantic validates strictly."""
    if isinstance(column, np.ndarray):
        return column.tolist() if column.ndim == 1 else list(column)
    return list(column)


def next_seed(seed: int) -> int:
    """The seed of the episode that an autoreset starts after that of `seed` (SplitMix64, Steele et al. 2014)."""
    mask = (1 << 64) - 1
    z = (seed + 0x9E3779B97F4A7C15) & mask
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & mask
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & mask
    return (z ^ (z >> 31)) >> 33
