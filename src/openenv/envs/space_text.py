"""Described spaces in text interfaces: random elements of them, and what an observation shows. It needs no numpy."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any

from openenv.core.text.action_forms import UnreadableReply
from openenv.core.text.content import Content, image_part, joined

_UNBOUNDED = 1.0
"""Random play of a number without a bound stays this close to zero."""
_IMAGE_DIMENSIONS = 3
"""Height, width and colours."""


def with_pixels(seen: Content, pixels: str | None) -> Content:
    """A description and the rendered frame below it, where there is one."""
    return seen if pixels is None else joined(seen, [image_part("pixels", pixels)])


def is_image(value: Any) -> bool:
    """Whether a value is an array of pixels."""
    return getattr(value, "ndim", 0) == _IMAGE_DIMENSIONS


def without_arrays(value: Any) -> Any:
    """A value with lists in place of arrays."""
    if isinstance(value, Mapping):
        return {key: without_arrays(item) for key, item in value.items()}
    if isinstance(value, list):
        return [without_arrays(item) for item in value]
    return value.tolist() if hasattr(value, "tolist") else value


def sample_space(description: Mapping[str, Any], rng: Random) -> Any:
    """A uniform element of a described Box or MultiDiscrete, as JSON. Raises UnreadableReply for another space."""
    if description["type"] == "Box":
        return _sample_box(description, rng)
    if description["type"] == "MultiDiscrete":
        pairs = zip(description["start"], description["nvec"], strict=True)
        return [rng.randrange(start, start + n) for start, n in pairs]
    raise UnreadableReply(f"random play has no elements of the action space {description['type']}.")


def _sample_box(description: Mapping[str, Any], rng: Random) -> Any:
    """Nested lists of uniform numbers between the bounds that `describe_box` has written."""
    is_whole = "int" in description["dtype"]

    def draw(low: float | None, high: float | None) -> float:
        least = low if low is not None else min(-_UNBOUNDED, high if high is not None else 0.0)
        most = high if high is not None else max(_UNBOUNDED, least)
        return rng.randint(int(least), int(most)) if is_whole else rng.uniform(least, most)

    return _filled(description["shape"], description["low"], description["high"], draw)


def _filled(shape: Sequence[int], low: Any, high: Any, draw: Callable[[Any, Any], float]) -> Any:
    """Nested lists of a shape. low, high: a bound of all elements, or nested lists of them."""
    if not shape:
        return draw(low, high)
    lows, highs = (bound if isinstance(bound, list) else [bound] * shape[0] for bound in (low, high))
    return [_filled(shape[1:], least, most, draw) for least, most in zip(lows, highs, strict=True)]
