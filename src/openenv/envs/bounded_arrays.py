"""Arrays with bounds, as JSON: described for clients, and checked when they come as actions."""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

LONGEST_LIST = 64
"""Elements of an array that is sent as a list. A larger one is sent as raw bytes to clients that read them."""


def describe_box(shape: Sequence[int], dtype: Any, low: Any, high: Any) -> dict[str, Any]:
    """The shape, dtype and bounds of an array. A bound that is infinite is null; one that all share is a number.

    Example: `{"type": "Box", "shape": [1], "dtype": "float32", "low": -2.0, "high": 2.0}`.
    """
    lows, highs = (np.broadcast_to(np.asarray(bound, dtype), shape) for bound in (low, high))
    return {
        "type": "Box", "shape": list(shape), "dtype": str(np.dtype(dtype)), "low": _bounds(lows), "high": _bounds(highs)
    }  # fmt: skip


def _bounds(bound: np.ndarray[Any, Any]) -> Any:
    flat = bound.ravel()
    if flat.size and (flat == flat[0]).all():
        return flat[0].item() if np.isfinite(flat[0]) else None
    return to_json(bound)


def to_json(value: Any) -> Any:
    """An element of a space, or an info, as plain JSON; what JSON cannot represent becomes null or text."""
    if isinstance(value, np.ndarray | np.generic):
        is_plain = value.dtype.kind in "biu" or (value.dtype.kind == "f" and np.isfinite(value).all())
        return value.tolist() if is_plain else to_json(value.tolist())
    if isinstance(value, Mapping):
        return {str(key): to_json(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(item) for item in value]
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return value if value is None or isinstance(value, bool | int | str) else str(value)


def to_message(value: Any) -> Any:
    """The same for a field of type JsonOrArray: arrays of more than LONGEST_LIST numbers stay arrays."""
    if isinstance(value, np.ndarray) and value.size > LONGEST_LIST and value.dtype.kind in "biuf":
        return value
    if isinstance(value, Mapping):
        return {str(key): to_message(item) for key, item in value.items()}
    return [to_message(item) for item in value] if isinstance(value, list | tuple) else to_json(value)
