"""Described spaces in text interfaces: how replies name their elements, and what observations show. Without numpy."""

from collections.abc import Callable, Mapping, Sequence
from random import Random
from typing import Any, ClassVar

from openenv.core.env_server.types import Action, Observation
from openenv.formats.json_text import json_text
from openenv.text.action_forms import UnreadableReply
from openenv.text.content import Content, image_part, joined
from openenv.text.derived import DerivedText
from openenv.text.reading import row_in
from openenv.text.sentences import reply_with_one_of

_DECIMALS = 2
"""Of numbers in replies of random play."""
_UNBOUNDED = 1.0
"""Random play of a number without a bound stays this close to zero."""
_MOST_EXAMPLES = 4
"""Numbers of a row that an example shows."""
_LONGEST_TEXT = 8
_LONGEST_SEQUENCE = 3
"""Of random play."""
_IMAGE_DIMENSIONS = 3
"""Height, width and colours."""


class SpaceText(DerivedText):
    """Replies by the action space that each observation's metadata describes.

    Where actions are numbered, they are the legal ones. For a Box of one dimension a reply is its numbers, such as
    `0.5 -0.25`; for other spaces it is a JSON object.
    """

    action_field: ClassVar[str] = "value"
    """The field of the action that holds the element of the space."""

    def reply_instructions(self, observation: Observation) -> str:
        """How to write a reply, in a sentence or two."""
        replies = self.replies(observation)
        if replies:
            return reply_with_one_of(replies)
        space = observation.metadata["action_space"]
        if _is_row(space):
            return f"Reply with {_row_words(space)}{_row_example(space)}."
        return f"Reply with a JSON object that has the field {self.action_field}, in this space: {json_text(space)}"

    def parse(self, reply: str, observation: Observation) -> Action | None:
        """The action that a reply names; None if it names none."""
        try:
            return self._parse_row(reply, observation) or super().parse(reply, observation)
        except UnreadableReply:
            return None

    def problem(self, reply: str, observation: Observation) -> str:
        """What is wrong with a reply, and what may be written instead."""
        try:
            return "" if self._parse_row(reply, observation) else super().problem(reply, observation)
        except UnreadableReply as error:
            return str(error)

    def wording(self, action: Action, observation: Observation) -> str | None:
        """The reply that names an action."""
        if _is_row(observation.metadata["action_space"]):
            return " ".join(f"{number:g}" for number in getattr(action, self.action_field))
        return super().wording(action, observation)

    def random_reply(self, observation: Observation, rng: Random) -> tuple[str, Action]:
        """A reply of random play and its action: each legal action, or a uniform element of the action space."""
        space = observation.metadata["action_space"]
        if self.replies(observation):
            return super().random_reply(observation, rng)
        action = self._action_class.model_validate({self.action_field: sample_space(space, rng)})
        if _is_row(space):
            return self.wording(action, observation) or "", action
        return json_text({self.action_field: getattr(action, self.action_field)}), action

    def _parse_row(self, reply: str, observation: Observation) -> Action | None:
        """The action of a Box of one dimension; None for another space. Raises UnreadableReply for a wrong reply."""
        space = observation.metadata["action_space"]
        if not _is_row(space) or self.replies(observation):
            return None
        numbers = row_in(reply) or []
        lows, highs = (_spread(space[key], space["shape"][0]) for key in ("low", "high"))
        are_inside = len(numbers) == len(lows) and all(
            (low is None or low <= number) and (high is None or number <= high)
            for number, low, high in zip(numbers, lows, highs, strict=True)
        )
        if not are_inside:
            raise UnreadableReply(f"{reply!r:.200} is not {_row_words(space)}.")
        return self._action_class.model_validate({self.action_field: numbers})


def _is_row(space: Mapping[str, Any]) -> bool:
    """Whether a described space is a Box of one dimension."""
    return space["type"] == "Box" and len(space["shape"]) == 1


def _row_words(space: Mapping[str, Any]) -> str:
    """Such as `2 numbers from -1 to 1`."""
    size, low, high = space["shape"][0], space["low"], space["high"]
    noun = "a number" if size == 1 else f"{size} numbers"
    if isinstance(low, list) or isinstance(high, list):
        lows, highs = (_spread(bound, size) for bound in (low, high))
        return f"{noun} from {' '.join(map(_bound_words, lows))} to {' '.join(map(_bound_words, highs))}"
    return f"{noun} from {_bound_words(low)} to {_bound_words(high)}"


def _row_example(space: Mapping[str, Any]) -> str:
    """Such as `, such as 0.5 -0.25`, for numbers that are few."""
    size = space["shape"][0]
    if size > _MOST_EXAMPLES:
        return ", with spaces between them"
    numbers = map(_between, _spread(space["low"], size), _spread(space["high"], size), range(size))
    return f", such as {' '.join(f'{number:g}' for number in numbers)}"


def _between(low: float | None, high: float | None, place: int) -> float:
    """A number between bounds: three quarters of the way, or one quarter at odd places."""
    least = low if low is not None else min(-_UNBOUNDED, high if high is not None else 0.0)
    most = high if high is not None else max(_UNBOUNDED, least)
    return least + (0.25 if place % 2 else 0.75) * (most - least)


def _bound_words(bound: float | None) -> str:
    return "any" if bound is None else f"{bound:g}"


def _spread(bound: Any, size: int) -> list[Any]:
    return bound if isinstance(bound, list) else [bound] * size


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
    """A random element of a described space, as JSON. Raises UnreadableReply for a space of another type."""
    sampler = _SAMPLERS.get(description["type"])
    if sampler is None or (description["type"] == "Sequence" and "space" not in description):
        raise UnreadableReply(f"random play has no elements of the action space {description['type']}.")
    return sampler(description, rng)


def _sample_sequence(description: Mapping[str, Any], rng: Random) -> list[Any]:
    return [sample_space(description["space"], rng) for _ in range(rng.randint(0, _LONGEST_SEQUENCE))]


def _sample_text(description: Mapping[str, Any], rng: Random) -> str:
    longest = max(description["min_length"], min(description["max_length"], _LONGEST_TEXT))
    return "".join(rng.choices(description["characters"], k=rng.randint(description["min_length"], longest)))


def _sample_starts(start: Any, n: Any, rng: Random) -> Any:
    """Whole numbers from `start`, `n` of them; nested lists where the two are."""
    if isinstance(n, list):
        return [_sample_starts(*pair, rng) for pair in zip(start, n, strict=True)]
    return rng.randrange(start, start + n)


def _sample_box(description: Mapping[str, Any], rng: Random) -> Any:
    """Nested lists of uniform numbers between the bounds that `describe_box` has written."""
    is_whole = "int" in description["dtype"] or description["dtype"] == "bool"

    def draw(low: float | None, high: float | None) -> float:
        least = low if low is not None else min(-_UNBOUNDED, high if high is not None else 0.0)
        most = high if high is not None else max(_UNBOUNDED, least)
        if is_whole:
            return rng.randint(int(least), int(most))
        return min(max(round(rng.uniform(least, most), _DECIMALS), least), most)

    return _filled(description["shape"], description["low"], description["high"], draw)


def _filled(shape: Sequence[int], low: Any, high: Any, draw: Callable[[Any, Any], float]) -> Any:
    """Nested lists of a shape. low, high: a bound of all elements, or nested lists of them."""
    if not shape:
        return draw(low, high)
    lows, highs = (bound if isinstance(bound, list) else [bound] * shape[0] for bound in (low, high))
    return [_filled(shape[1:], least, most, draw) for least, most in zip(lows, highs, strict=True)]


_SAMPLERS: Mapping[str, Callable[[Mapping[str, Any], Random], Any]] = {
    "Box": _sample_box,
    "Discrete": lambda space, rng: _sample_starts(space["start"], space["n"], rng),
    "MultiDiscrete": lambda space, rng: _sample_starts(space["start"], space["nvec"], rng),
    "MultiBinary": lambda space, rng: _filled(space["shape"], 0, 1, rng.randint),
    "Text": _sample_text,
    "Sequence": _sample_sequence,
    "Tuple": lambda space, rng: [sample_space(part, rng) for part in space["spaces"]],
    "Dict": lambda space, rng: {name: sample_space(part, rng) for name, part in space["spaces"].items()},
}
