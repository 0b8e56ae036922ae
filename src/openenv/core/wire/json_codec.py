"""Writes JSON with integers of any size and with arrays; `read_frame` in `arrays` reads it."""

from collections.abc import Callable
from typing import Any

import orjson


def write_json(value: Any, *, default: Callable[[Any], Any] | None = None, option: int = 0) -> bytes:
    """As orjson.dumps, for integers of any size. Raises TypeError for a value that JSON cannot represent."""
    try:
        return orjson.dumps(value, default, option)
    except TypeError:
        if not _has_long_integers(value):
            raise
        return orjson.dumps(with_long_integers(value), default, option)


def _is_long(value: Any) -> bool:
    return isinstance(value, int) and not -(1 << 63) <= value < 1 << 64


def _has_long_integers(value: Any) -> bool:
    if isinstance(value, dict):
        return any(map(_has_long_integers, value.values()))
    return any(map(_has_long_integers, value)) if isinstance(value, list | tuple) else _is_long(value)


def with_long_integers(value: Any) -> Any:
    """`value` with each integer beyond 64 bits as the text that it is in JSON."""
    if isinstance(value, dict):
        return {key: with_long_integers(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [with_long_integers(item) for item in value]
    return orjson.Fragment(str(int(value))) if _is_long(value) else value


def to_plain(value: Any) -> Any:
    """Arrays, tensors and their scalars as lists and numbers: the `default` of every JSON encoder here."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON: give the field a type that pydantic can serialise")


def to_plain_or_text(value: Any) -> Any:
    """The same, where anything else becomes its text."""
    return value.tolist() if hasattr(value, "tolist") else str(value)
