"""Gymnasium's spaces of a vector's actions and observations, and its columns as arrays."""

import itertools
import string
from collections.abc import Container, Mapping, Sequence
from typing import Any

import gymnasium.spaces as spaces
import numpy as np

_LONGEST_SAMPLE = 32
_MOST_NUMBERED = 1 << 31


def single_action_space(fields: Mapping[str, Any]) -> tuple[spaces.Space[Any], str]:
    """The space of one environment's action, and the field that a plain array of actions is for.

    fields: the description of each field of an action, `{"n": 3}` or a JSON schema. The space of an action with
    one required field is that field's; others have a Dict.
    """
    required = [name for name, spec in fields.items() if spec.get("required", True)] or list(fields)
    if len(required) == 1:
        return _field_space(fields[required[0]]), required[0]
    return spaces.Dict({name: _field_space(fields[name]) for name in required}), ""


def _field_space(spec: Mapping[str, Any]) -> spaces.Space[Any]:
    low, high = spec.get("minimum", -np.inf), spec.get("maximum", np.inf)
    if "n" in spec:
        return _whole_numbers(0, spec["n"] - 1)
    if spec.get("type") == "integer":
        low = max(low, spec.get("exclusiveMinimum", -np.inf) + 1)
        high = min(high, spec.get("exclusiveMaximum", np.inf) - 1)
        return _whole_numbers(low, high)
    if spec.get("type") == "boolean":
        return spaces.Discrete(2)
    if spec.get("type") == "number":
        return spaces.Box(low, high, (), np.float64)
    if "low" in spec and "shape" in spec:
        shape, dtype = tuple(spec["shape"]), np.dtype(spec["dtype"])
        return spaces.Box(_bound(spec["low"], -np.inf, shape, dtype), _bound(spec["high"], np.inf, shape, dtype),
                          shape, dtype.type)  # fmt: skip
    return AnyText()


def _whole_numbers(low: float, high: float) -> spaces.Space[Any]:
    """From low to high: a Discrete, whose samples a mask may restrict, unless they are without a bound or too many."""
    if high - low < _MOST_NUMBERED:
        return spaces.Discrete(int(high) - int(low) + 1, start=int(low))
    return spaces.Box(int(max(low, -_SAMPLED)), int(min(high, _SAMPLED)), (), np.int64)


def _bound(bound: Any, infinite: float, shape: tuple[int, ...], dtype: np.dtype[Any]) -> np.ndarray[Any, Any]:
    """The bounds of each element. bound: of all of them, or nested lists; JSON has null for what is infinite."""
    if bound is None and dtype.kind in "iu":
        return np.full(shape, np.iinfo(dtype).min if infinite < 0 else np.iinfo(dtype).max, dtype)
    bounds = np.array(bound, dtype)  # None becomes NaN
    if dtype.kind == "f":
        bounds = np.where(np.isnan(bounds), infinite, bounds).astype(dtype)
    return np.broadcast_to(bounds, shape)


class AnyText(spaces.Text):
    """Every text. Samples are short and of ASCII."""

    def __init__(self) -> None:
        super().__init__(_LONGEST_SAMPLE, min_length=0, charset=string.printable)

    def contains(self, x: Any) -> bool:
        """Whether it is a text."""
        return isinstance(x, str)


def one_observation_space(columns: Mapping[str, Any], described: Mapping[str, Any]) -> tuple[spaces.Space[Any], str]:
    """The space of one environment's observation, from the first one; and its only field, where it has one.

    described: what the server knows of the values, as `VectorEnvironment.observation_fields` has it.
    """
    fields = {name: _column_space(column, described.get(name, {})) for name, column in columns.items()}
    if len(fields) == 1:
        name = next(iter(fields))
        return fields[name], name
    return spaces.Dict(fields), ""


def _column_space(column: Any, spec: Mapping[str, Any]) -> spaces.Space[Any]:
    if "n" in spec or "low" in spec:
        return _field_space(spec)
    if not isinstance(column, np.ndarray):
        is_text = bool(column) and isinstance(column[0], str)
        return AnyText() if is_text else spaces.Sequence(spaces.Box(*_WHOLE, (), np.int64), stack=True)
    shape, dtype = column.shape[1:], column.dtype
    if dtype == np.bool_:
        return spaces.MultiBinary(shape) if shape else spaces.Discrete(2)
    limits: Any = np.iinfo(dtype) if dtype.kind != "f" else None
    low, high = (limits.min, limits.max) if limits else (-np.inf, np.inf)
    return spaces.Box(spec.get("minimum", low), spec.get("maximum", high), shape, dtype.type)


_WHOLE = (np.iinfo(np.int64).min, np.iinfo(np.int64).max)
_SAMPLED = 1 << 62
"""Bound of whole numbers without one: Gymnasium cannot sample up to the largest."""


def columns_of(actions: Any, only_field: str) -> dict[str, Any]:
    """Actions as a column for each field. Raises TypeError when fields must be named and are not."""
    if isinstance(actions, Mapping):
        return dict(actions)
    if not only_field:
        raise TypeError("actions: give a dictionary of arrays, one for each field of the action")
    is_text = len(actions) > 0 and isinstance(actions[0], str)
    return {only_field: list(actions) if is_text else np.asarray(actions)}


def concatenated(parts: Sequence[Mapping[str, Any]], texts: Container[str]) -> tuple[dict[str, Any], dict[str, Any]]:
    """The observations of several responses as one: columns that have a space, and lists of what has none.

    texts: the fields that are declared as text.
    """
    columns, others = dict[str, Any](), dict[str, Any]()
    firsts = {name: column for part in reversed(parts) for name, column in part.items()}
    for name, first in firsts.items():
        if isinstance(first, np.ndarray):
            columns[name] = first if len(parts) == 1 else np.concatenate([part[name] for part in parts])
        elif isinstance(first, dict):
            columns[name] = tuple(row for part in parts for row in _split(part[name]))
        elif name in texts:
            columns[name] = tuple(row for part in parts for row in part[name])
        else:
            others[name] = [row for part in parts for row in part.get(name, [None] * _num_rows(part))]
    return columns, others


def _num_rows(part: Mapping[str, Any]) -> int:
    return max((len(column) for column in part.values() if not isinstance(column, dict)), default=0)


def _split(ragged: Mapping[str, Any]) -> list[Any]:
    """The rows of a ragged column."""
    values, offsets = ragged["values"], ragged["offsets"]
    return [values[start:end] for start, end in itertools.pairwise(offsets)]
