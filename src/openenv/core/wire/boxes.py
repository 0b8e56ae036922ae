"""The limits of an array in a message: its shape, its kind of numbers and their bounds."""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pydantic import GetCoreSchemaHandler, GetJsonSchemaHandler
from pydantic_core import core_schema

_MOST_DIMENSIONS = 32
"""Each is a level of the schema."""
_MOST_BOUNDS = 1000
"""Elements with bounds of their own that a schema lists one by one."""


@dataclass(frozen=True)
class Box:
    """Annotates an `Array` with the arrays that its field may hold, as Gymnasium's `Box` does.

    Arrays and nested lists are converted to `dtype`. The server refuses a value of another shape or outside the bounds.
    The schema has all of it, so that clients, models and random play know which arrays there are.

    Example:
        class Push(Action):
            force: Annotated[Array, Box(-1, 1, (2,))]
    """

    low: Any = -math.inf
    """The least value: one for all elements, or one for each."""
    high: Any = math.inf
    """The largest value, likewise."""
    shape: tuple[int, ...] | None = None
    """Lengths of the dimensions (default: those of `low` or `high`; any, where both are numbers)."""
    dtype: Any = "float64"
    """Name or type of numpy: integers, floats, or bool."""

    def __post_init__(self) -> None:
        # numpy belongs to messages that have arrays; all others do without
        import numpy as np

        dtype = np.dtype(self.dtype)
        if dtype.kind not in "biuf":
            raise ValueError(f"Box: dtype={self.dtype!r}: give integers, floats or bool.")
        low, high = np.asarray(self.low, np.float64), np.asarray(self.high, np.float64)
        if dtype.kind in "iu" and dtype.itemsize < 8:
            low, high = np.maximum(low, np.iinfo(dtype).min), np.minimum(high, np.iinfo(dtype).max)
        shape = self.shape if self.shape is not None else np.broadcast_shapes(low.shape, high.shape) or None
        if shape is not None:
            shape = tuple(int(size) for size in shape)
            if len(shape) > _MOST_DIMENSIONS or min(shape, default=0) < 0:
                raise ValueError(f"Box: shape={str(shape)[:80]}: give lengths, at most {_MOST_DIMENSIONS}.")
        for name, bound in (("low", low), ("high", high)):
            if bound.shape not in ((), shape):
                raise ValueError(f"Box: {name} has the shape {bound.shape}: give one number, or the shape {shape}.")
        if np.isnan(low).any() or np.isnan(high).any() or (low > high).any():
            raise ValueError(f"Box: low={self.low!r}, high={self.high!r}: no number is between them.")
        bounds = {"low": _as_tuples(low.tolist()), "high": _as_tuples(high.tolist())}
        for name, value in {**bounds, "shape": shape, "dtype": str(dtype)}.items():
            object.__setattr__(self, name, value)

    @classmethod
    def of_schema(cls, schema: Mapping[str, Any]) -> Self:
        """The limits that the JSON Schema of such a field has."""
        shape = schema.get("shape")
        low, high = _with_infinity(schema.get("low"), -math.inf), _with_infinity(schema.get("high"), math.inf)
        return cls(low, high, None if shape is None else tuple(shape), schema["dtype"])

    def checked(self, array: Any) -> Any:
        """The array in the declared dtype. Raises ValueError for another shape, other numbers, or one out of bounds."""
        if self.shape is not None and array.shape != self.shape:
            raise ValueError(f"has the shape {array.shape}: {self.shape} is declared")
        try:
            element = to_array(array, self.dtype)
        except ValueError:
            raise ValueError(f"holds {array.dtype} numbers that are no {self.dtype}") from None
        if (array < self.low).any() or (array > self.high).any():
            raise ValueError(f"has numbers from {array.min():g} to {array.max():g}: {self._bounds_text()}")
        return element

    def _bounds_text(self) -> str:
        if isinstance(self.low, tuple) or isinstance(self.high, tuple):
            return "a bound of its own is declared for each"
        return f"{self.low:g} to {self.high:g} is declared"

    def json_schema(self) -> dict[str, Any]:
        """Nested lists with lengths and bounds. Beside them shape, dtype and bounds; an infinite bound is null."""
        described = {"dtype": self.dtype, "low": _without_infinity(self.low), "high": _without_infinity(self.high)}
        if self.shape is None:
            number = self._number(self.low, self.high)
            return {"type": "array", "items": {"anyOf": [number, {"type": "array"}]}, **described}
        return {**self._nested(self.shape, self.low, self.high), "shape": list(self.shape), **described}

    def _nested(self, shape: tuple[int, ...], low: Any, high: Any) -> dict[str, Any]:
        """The schema of the dimensions from one on, with the bounds there. Very many bounds become the widest."""
        if not shape:
            return self._number(low, high)
        size, *rest = shape
        has_own_bounds = isinstance(low, tuple) or isinstance(high, tuple)
        if has_own_bounds and math.prod(self.shape or ()) > _MOST_BOUNDS:
            low, high, has_own_bounds = min(_flat(low) or [low]), max(_flat(high) or [high]), False
        lengths = {"minItems": size, "maxItems": size}
        if not has_own_bounds:
            return {"type": "array", "items": self._nested(tuple(rest), low, high), **lengths}
        lows, highs = (bound if isinstance(bound, tuple) else (bound,) * size for bound in (low, high))
        each = [self._nested(tuple(rest), *bounds) for bounds in zip(lows, highs, strict=True)]
        return {"type": "array", "prefixItems": each, "items": False, **lengths}

    def _number(self, low: float, high: float) -> dict[str, Any]:
        if self.dtype == "bool":
            return {"type": "boolean"}
        is_whole = self.dtype.startswith(("int", "uint"))
        limits = {"minimum": math.ceil(low) if is_whole and math.isfinite(low) else low,
                  "maximum": math.floor(high) if is_whole and math.isfinite(high) else high}  # fmt: skip
        known = {key: limit if limit % 1 else int(limit) for key, limit in limits.items() if math.isfinite(limit)}
        return {"type": "integer" if is_whole else "number", **known}

    def __get_pydantic_core_schema__(self, source: Any, handler: GetCoreSchemaHandler) -> core_schema.CoreSchema:
        return core_schema.no_info_after_validator_function(self.checked, handler(source))

    def __get_pydantic_json_schema__(
        self, schema: core_schema.CoreSchema, handler: GetJsonSchemaHandler
    ) -> dict[str, Any]:
        return self.json_schema()


def to_array(value: Any, dtype: Any) -> Any:
    """The array of a dtype that nested lists mean. Raises ValueError for what is no array of finite numbers.

    A float that is not whole is no element of an array of integers, and text is none of any.
    """
    import numpy as np

    given, wanted = np.asarray(value), np.dtype(dtype)
    if given.dtype.kind not in ("biu" if wanted.kind == "b" else "iuf"):
        raise ValueError("of another type")
    with np.errstate(invalid="ignore", over="ignore"):
        element = given.astype(wanted)
    if not np.isfinite(element).all() or (wanted.kind != "f" and (element != given).any()):
        raise ValueError("of another type")
    return element


def _as_tuples(value: Any) -> Any:
    return tuple(_as_tuples(part) for part in value) if isinstance(value, list) else value


def _flat(bound: Any) -> list[float]:
    """The bounds of the elements; none where one number is the bound of all."""
    return [number for part in bound for number in _flat(part) or [part]] if isinstance(bound, tuple) else []


def _without_infinity(bound: Any) -> Any:
    """A bound as JSON has it."""
    if isinstance(bound, tuple):
        return [_without_infinity(part) for part in bound]
    return bound if math.isfinite(bound) else None


def _with_infinity(bound: Any, infinite: float) -> Any:
    """A bound from JSON."""
    if isinstance(bound, list):
        return [_with_infinity(part, infinite) for part in bound]
    return infinite if bound is None else bound
