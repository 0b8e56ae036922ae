"""Random values that a JSON Schema allows."""

import math
import re
from base64 import b64encode
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from functools import partial
from ipaddress import IPv4Address, IPv6Address
from random import Random
from string import ascii_lowercase
from typing import Any
from uuid import UUID

from openenv.formats.json_text import json_text
from openenv.schema.message_schema import NOW, is_array_schema
from openenv.schema.patterns import matching_texts

_DEEPEST = 6
"""From there on only what is required is sampled."""
_MAX_DEPTH = 100
_SPREAD = 9
"""Largest distance of an unbounded number from its lower bound."""
_LONGEST_WORD = 8
_LONGEST_ARRAY = 3


def _uuid(rng: Random, version: int) -> str:
    digits = f"{rng.getrandbits(128):032x}"
    return str(UUID(f"{digits[:12]}{version}{digits[13:16]}8{digits[17:]}"))


_LATEST = 2_000_000_000
"""Seconds since 1970 of the last time that is sampled."""
_PAST, _FUTURE = 1_500_000_000, 4_000_000_000
"""Seconds since 1970 of the last past time, and of the first future one: samples are the same on any day."""
_FORMATS: Mapping[str, Callable[[Random], str]] = {
    "date-time": lambda rng: datetime.fromtimestamp(rng.randrange(_LATEST), UTC).isoformat(),
    "date": lambda rng: datetime.fromtimestamp(rng.randrange(_LATEST), UTC).date().isoformat(),
    "time": lambda rng: datetime.fromtimestamp(rng.randrange(_LATEST), UTC).time().isoformat(),
    "duration": lambda rng: f"PT{rng.randrange(3600)}S",
    "uuid": lambda rng: _uuid(rng, 4),
    **{f"uuid{version}": partial(_uuid, version=version) for version in range(1, 9)},
    "ipv4": lambda rng: str(IPv4Address(rng.getrandbits(32))),
    "ipv6": lambda rng: str(IPv6Address(rng.getrandbits(128))),
    **{f"ipv4{kind}": lambda rng: f"10.0.{rng.randrange(256)}.0/24" for kind in ("network", "interface")},
    **{f"ipv6{kind}": lambda rng: f"2001:db8:{rng.randrange(256):x}::/48" for kind in ("network", "interface")},
    **{f"ipvany{kind}": lambda rng: f"10.0.0.{rng.randrange(256)}" for kind in ("address", "network", "interface")},
    "fraction": lambda rng: f"{rng.randrange(10)}/{rng.randrange(1, 10)}",
    "uri": lambda rng: f"https://example.com/{rng.randrange(1000)}",
    "email": lambda rng: f"user{rng.randrange(1000)}@example.com",
    "base64": lambda rng: b64encode("".join(rng.choices(ascii_lowercase, k=6)).encode()).decode(),
}


class SchemaSampler:
    """Samples values of one schema.

    It supports what pydantic generates: types, enum, const, bounds of numbers, lengths, arrays, objects, anyOf, oneOf,
    allOf, $ref, examples, patterns, JSON in a text, and the formats of times, addresses and identifiers.
    """

    def __init__(
        self,
        schema: Mapping[str, Any],
        rng: Random,
        *,
        simplest: bool = False,
        optional: bool = False,
        words: Sequence[str] = (),
    ) -> None:
        """
        Args:
            simplest: always the first alternative, the number nearest zero, and the shortest text.
            optional: give objects that have required fields optional ones too.
            words: one or two of them are a text without limits; otherwise it is made of letters.
        """
        self._root = schema
        self._rng = rng
        self._simplest = simplest
        self._optional = optional
        self._words = words

    def sample(self) -> Any:
        """A value of the whole schema."""
        return self.value(self._root)

    def value(self, schema: Mapping[str, Any], depth: int = 0) -> Any:
        """A value of a part of the schema. Raises ValueError where each value would have to contain another one."""
        if depth > _MAX_DEPTH:
            raise ValueError(f"a value of the schema would be nested more than {_MAX_DEPTH} deep: it contains itself")
        schema = resolved(self._root, schema)
        if "const" in schema:
            return schema["const"]
        for key in ("enum", "examples"):
            if schema.get(key):
                return self._pick(schema[key])
        for key in ("anyOf", "oneOf"):
            if schema.get(key):
                return self.value(self._alternative(schema[key], depth), depth + 1)
        kind = schema.get("type")
        kind = self._pick(kind) if isinstance(kind, list) else kind
        return self._of_type(str(kind), schema, depth)

    def _of_type(self, kind: str, schema: Mapping[str, Any], depth: int) -> Any:
        if kind == "integer":
            return self._whole_number(schema)
        if kind == "number":
            return self._number(schema)
        if kind == "boolean":
            return self._pick([False, True])
        if kind == "null":
            return None
        if kind == "array":
            return self._array(schema, depth)
        if kind == "object" or "properties" in schema:
            return self._object(schema, depth)
        return self._text(schema, depth)

    def _alternative(self, options: Sequence[Any], depth: int) -> Any:
        plain = [
            option for option in options if resolved(self._root, option).get("type") not in ("array", "object", None)
        ]
        return self._pick(plain if plain and depth >= _DEEPEST else options)

    def _whole_number(self, schema: Mapping[str, Any]) -> int:
        step = int(schema.get("multipleOf", 1))
        low, high = _bounds(schema, margin=1)
        low = -(-int(low) // step) * step
        if self._simplest:
            return min(max(0, low), int(high))
        return self._rng.randrange(low, int(high) + 1, step)

    def _number(self, schema: Mapping[str, Any]) -> float:
        low, high = _bounds(schema, margin=1e-6)
        step = schema.get("multipleOf")
        if step:
            least, most = math.ceil(low / step), math.floor(high / step)
            count = min(max(0, least), most) if self._simplest else self._rng.randint(least, max(least, most))
            return float(step * count)
        value = 0.0 if self._simplest else round(self._rng.uniform(low, high), _decimals(high - low))
        return min(max(value, low), high)

    def _text(self, schema: Mapping[str, Any], depth: int) -> str:
        if NOW in schema:
            return self._past_or_future(schema)
        if schema.get("format") in _FORMATS:
            return _FORMATS[schema["format"]](self._rng)
        if schema.get("contentMediaType") == "application/json":
            return json_text(self.value(schema.get("contentSchema", {}), depth + 1))
        matching = self._matching(schema) if "pattern" in schema else None
        if matching is not None:
            return matching
        if self._words and not schema.keys() & {"minLength", "maxLength", "pattern", "format"}:
            return " ".join(self._rng.sample(self._words, min(len(self._words), self._rng.randint(1, 2))))
        shortest = int(schema.get("minLength", 0))
        longest = max(shortest, min(int(schema.get("maxLength", _LONGEST_WORD)), _LONGEST_WORD))
        length = shortest if self._simplest else self._rng.randint(min(max(shortest, 1), longest), longest)
        return "".join(self._rng.choices(ascii_lowercase, k=length))

    def _past_or_future(self, schema: Mapping[str, Any]) -> str:
        """A date, or a time, that is as far away as its schema says."""
        seconds = self._rng.randrange(_PAST) + (_FUTURE if schema[NOW] == "future" else 0)
        time = datetime.fromtimestamp(seconds, UTC)
        return (time.date() if schema.get("format") == "date" else time).isoformat()

    def _matching(self, schema: Mapping[str, Any]) -> str | None:
        """A text that its pattern matches and that has the lengths allowed; None where none was found."""
        shortest, longest = schema.get("minLength", 0), schema.get("maxLength", math.inf)
        pattern = str(schema["pattern"])
        texts = matching_texts(pattern, self._rng, shortest)
        return next((text for text in texts if shortest <= len(text) <= longest and re.search(pattern, text)), None)

    def _array(self, schema: Mapping[str, Any], depth: int) -> list[Any]:
        if is_array_schema(schema) and "shape" not in schema:  # one number, which has the shape of every other array
            return [self.value(schema["items"]["anyOf"][0], depth + 1)]
        first = [self.value(item, depth + 1) for item in schema.get("prefixItems", ())]
        shortest = int(schema.get("minItems", 0))
        longest = max(shortest, min(int(schema.get("maxItems", _LONGEST_ARRAY)), _LONGEST_ARRAY))
        wanted = shortest if self._simplest or depth >= _DEEPEST else self._rng.randint(shortest, longest)
        more = range(len(first), wanted if schema.get("items", True) else 0)
        return [*first, *(self.value(schema.get("items", {}), depth + 1) for _ in more)]

    def _object(self, schema: Mapping[str, Any], depth: int) -> dict[str, Any]:
        """The required fields; each optional one with probability one half, if wanted or if none is required."""
        properties = schema.get("properties", {})
        names = [name for name in schema.get("required", ()) if name in properties]
        if (self._optional or not names) and not self._simplest and depth < _DEEPEST:
            others = (name for name in properties if name not in names and name != "metadata")
            names += [name for name in others if self._rng.random() < 0.5]
        return {name: self.value(properties[name], depth + 1) for name in names}

    def _pick(self, options: Sequence[Any]) -> Any:
        return options[0] if self._simplest else self._rng.choice(options)


def words_of(seen: str) -> list[str]:
    """The words of a text, without the punctuation around them."""
    return [word for part in seen.split() if (word := part.strip(",.;:!?"))]


def resolved(root: Mapping[str, Any], schema: Any, followed: frozenset[str] = frozenset()) -> Mapping[str, Any]:
    """A part of the schema `root` with its `$ref` and `allOf` resolved. Raises ValueError for a reference that leads
    to itself. followed: the references that have led here."""
    if not isinstance(schema, Mapping):  # the schema `true` allows everything
        return {}
    whole = dict(schema)
    while "$ref" in whole:
        target: Any = root
        reference = str(whole.pop("$ref"))
        if reference in followed:
            raise ValueError(f"the reference {reference!r} of the schema leads to itself")
        followed |= {reference}
        for part in filter(None, reference.removeprefix("#").split("/")):
            target = target[part]
        whole = {**target, **whole}
    for part in whole.get("allOf", ()):
        whole |= resolved(root, part, followed)
    return whole


def _decimals(spread: float) -> int:
    """Decimal places that divide a range into 100 to 1,000 values. With more digits, replies would never recur."""
    return 2 - math.floor(math.log10(spread)) if spread > 0 else 2


def _bounds(schema: Mapping[str, Any], *, margin: float) -> tuple[float, float]:
    """The smallest and the largest sample. margin: distance from an exclusive bound."""
    low = schema.get("minimum", schema["exclusiveMinimum"] + margin if "exclusiveMinimum" in schema else -math.inf)
    high = schema.get("maximum", schema["exclusiveMaximum"] - margin if "exclusiveMaximum" in schema else math.inf)
    if math.isinf(low):
        low = 0 if high >= 0 else high - _SPREAD
    return low, max(low, low + _SPREAD if math.isinf(high) else high)
