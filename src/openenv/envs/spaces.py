"""Gymnasium's spaces as JSON: their descriptions and their elements."""

from typing import Any

from gymnasium import Space, spaces

from openenv.core.wire.boxes import to_array
from openenv.envs.bounded_arrays import describe_box


def describe_space(space: Space[Any]) -> dict[str, Any]:
    """The type of a space and what is in it; arrays as `describe_box` has them.

    Example: `{"type": "Discrete", "n": 2, "start": 0}`.
    """
    kind = type(space).__name__
    if isinstance(space, spaces.Discrete):
        return {"type": kind, "n": int(space.n), "start": int(space.start)}
    if isinstance(space, spaces.Box):
        return describe_box(space.shape, space.dtype, space.low, space.high)
    if isinstance(space, spaces.MultiDiscrete):
        return {"type": kind, "nvec": space.nvec.tolist(), "start": space.start.tolist()}
    if isinstance(space, spaces.MultiBinary):
        return {"type": kind, "shape": list(space.shape)}
    if isinstance(space, spaces.Tuple):
        return {"type": kind, "spaces": [describe_space(part) for part in space.spaces]}
    if isinstance(space, spaces.Dict):
        return {"type": kind, "spaces": {name: describe_space(part) for name, part in space.spaces.items()}}
    if isinstance(space, spaces.Text):
        letters = "".join(sorted(space.character_set))
        return {"type": kind, "min_length": space.min_length, "max_length": space.max_length, "characters": letters}
    if isinstance(space, spaces.Sequence) and not space.stack:
        return {"type": kind, "space": describe_space(space.feature_space)}
    return {"type": kind, "text": str(space)}


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
        return to_array(value, space.dtype)
    if isinstance(space, spaces.Tuple):
        return tuple(_converted(part, item) for part, item in zip(space.spaces, value, strict=True))
    if isinstance(space, spaces.Sequence) and not space.stack:
        return tuple(_converted(space.feature_space, item) for item in value)
    if isinstance(space, spaces.Dict):
        if value.keys() != space.spaces.keys():
            raise ValueError("of other keys")
        return {name: _converted(part, value[name]) for name, part in space.spaces.items()}
    return value
