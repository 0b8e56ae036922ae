"""Spaces of Gymnasium as JSON: their descriptions, their elements, and the names of their actions."""

import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from gymnasium import Space, spaces

ACTION_NAMES: Mapping[str, tuple[str, ...]] = {
    "Acrobot": ("minus", "none", "plus"),
    "Blackjack": ("stick", "hit"),
    "CartPole": ("left", "right"),
    "CliffWalking": ("up", "right", "down", "left"),
    "CliffWalkingSlippery": ("up", "right", "down", "left"),
    "FrozenLake": ("left", "down", "right", "up"),
    "FrozenLake8x8": ("left", "down", "right", "up"),
    "LunarLander": ("none", "left", "main", "right"),
    "MountainCar": ("left", "none", "right"),
    "Taxi": ("south", "north", "east", "west", "pickup", "dropoff"),
}
"""Names of the actions of Discrete spaces, by the id without its version."""


def action_names(env_id: str, legal: list[int]) -> list[str]:
    """The names of legal actions; empty where they have none."""
    names = ACTION_NAMES.get(env_id.rpartition("-v")[0], ())
    return [names[action] for action in legal] if names else []


def describe_space(space: Space[Any]) -> dict[str, Any]:
    """The type of a space and what is in it. A bound that is infinite is null; one that all elements share is a number.

    Example: `{"type": "Box", "shape": [1], "dtype": "float32", "low": -2.0, "high": 2.0}`.
    """
    kind = type(space).__name__
    if isinstance(space, spaces.Discrete):
        return {"type": kind, "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.Box):
        bounds = {"low": _bounds(space.low), "high": _bounds(space.high)}
        return {"type": kind, "shape": list(space.shape), "dtype": str(space.dtype), **bounds}
    if isinstance(space, spaces.MultiDiscrete):
        return {"type": kind, "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, spaces.MultiBinary):
        return {"type": kind, "shape": list(space.shape)}
    if isinstance(space, spaces.Tuple):
        return {"type": kind, "spaces": [describe_space(part) for part in space.spaces]}
    if isinstance(space, spaces.Dict):
        return {"type": kind, "spaces": {name: describe_space(part) for name, part in space.spaces.items()}}
    return {"type": kind, "text": str(space)}


def _bounds(bound: np.ndarray[Any, Any]) -> Any:
    flat = bound.ravel()
    if flat.size and (flat == flat[0]).all():
        return flat[0].item() if np.isfinite(flat[0]) else None
    return to_json(bound)


def to_element(space: Space[Any], value: Any) -> Any:
    """The element of a space that a JSON value means. Raises ValueError, naming the space, if it is none."""
    try:
        element = _converted(space, value)
    except (AttributeError, TypeError, ValueError, OverflowError):
        element = None
    if element is None or not space.contains(element):
        raise ValueError(f"value={str(value)[:200]} is not in the action space {space}.")
    return element


def _converted(space: Space[Any], value: Any) -> Any:
    """Arrays for the spaces of arrays, other values as they are. Raises various errors for a value of a wrong type."""
    if isinstance(space, spaces.Box | spaces.MultiDiscrete | spaces.MultiBinary):
        given, wanted = np.asarray(value), np.dtype(space.dtype)
        is_number = given.dtype.kind in ("iuf" if wanted.kind == "f" else "iu")
        element = given.astype(wanted)
        if not is_number or not np.isfinite(element).all() or (wanted.kind != "f" and (element != given).any()):
            raise ValueError("of another type")
        return element
    if isinstance(space, spaces.Tuple):
        return tuple(_converted(part, item) for part, item in zip(space.spaces, value, strict=True))
    if isinstance(space, spaces.Dict):
        if value.keys() != space.spaces.keys():
            raise ValueError("of other keys")
        return {name: _converted(part, value[name]) for name, part in space.spaces.items()}
    return value


def to_json(value: Any) -> Any:
    """An element of a space, or Gymnasium's info, as plain JSON; what JSON cannot represent becomes null or text."""
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
