"""Random texts that a regular expression matches."""

import re
from collections.abc import Iterator, Mapping, Sequence
from random import Random
from re import _parser  # type: ignore[attr-defined]  # of no public name, the same in Python 3.11 to 3.14
from string import ascii_letters, ascii_lowercase, digits
from typing import Any

_MOST_MORE = 4
"""Repetitions beyond the fewest, where a pattern has no upper bound or a high one, and texts may be short."""
_MOST_PARTS = 2000
"""Of one text: a short pattern may ask for billions."""
_MOST_TEXTS = 50
_WORD, _OTHERS = ascii_letters + digits + "_", " -.,:;!?/@#+*=()[]'\""
_CATEGORIES: Mapping[str, str] = {
    "CATEGORY_DIGIT": digits,
    "CATEGORY_WORD": _WORD,
    "CATEGORY_SPACE": " ",
    "CATEGORY_NOT_DIGIT": ascii_letters + _OTHERS,
    "CATEGORY_NOT_WORD": _OTHERS,
    "CATEGORY_NOT_SPACE": _WORD + _OTHERS.strip(),
}


def matching_texts(pattern: str, rng: Random, shortest: int = 0) -> Iterator[str]:
    """Up to 50 texts for a pattern. None where it looks ahead or behind, or is no regular expression of Python.

    Word boundaries, anchors inside, and groups that did not take part are not obeyed. shortest: length that a text
    should have.
    """
    try:
        parsed = _parser.parse(pattern)
        for _ in range(_MOST_TEXTS):
            yield _Writer(rng, max(_MOST_MORE, shortest)).text(parsed)
    except (re.error, _CannotWrite, RecursionError, OverflowError):
        return


class _CannotWrite(Exception):
    """The pattern has a part of another kind, or its text would be too long."""


class _Writer:
    """Writes one text."""

    def __init__(self, rng: Random, most_more: int) -> None:
        """most_more: repetitions beyond the fewest."""
        self._rng = rng
        self._most_more = most_more
        self._groups: dict[int, str] = {}
        self._num_parts = 0

    def text(self, parts: Sequence[tuple[Any, Any]]) -> str:
        """The text of a parsed pattern or a part of one."""
        self._num_parts += 1 + len(parts)
        if self._num_parts > _MOST_PARTS:
            raise _CannotWrite
        return "".join(self._part(str(kind), value) for kind, value in parts)

    def _part(self, kind: str, value: Any) -> str:
        if kind in ("MAX_REPEAT", "MIN_REPEAT", "POSSESSIVE_REPEAT"):
            fewest, most, inner = value
            return "".join(
                self.text(inner) for _ in range(self._rng.randint(fewest, min(most, fewest + self._most_more)))
            )
        if kind == "BRANCH":
            return self.text(self._rng.choice(value[1]))
        if kind == "SUBPATTERN":
            self._groups[value[0]] = self.text(value[-1])
            return self._groups[value[0]]
        if kind == "ATOMIC_GROUP":
            return self.text(value)
        if kind == "GROUPREF":
            return self._groups.get(value, "")
        return "" if kind == "AT" else self._character(kind, value)

    def _character(self, kind: str, value: Any) -> str:
        allowed = _characters(kind, value)
        if not allowed:
            raise _CannotWrite
        return self._rng.choice(allowed)


def _characters(kind: str, value: Any) -> str:
    """Some of the characters that a part of one character matches; none where the part is of another kind."""
    if kind == "LITERAL":
        return chr(value)
    if kind == "ANY":
        return ascii_lowercase
    if kind == "NOT_LITERAL":
        return (_WORD + _OTHERS).replace(chr(value), "")
    if kind == "CATEGORY":
        return _CATEGORIES.get(str(value), "")
    if kind == "RANGE":
        return "".join(map(chr, range(value[0], min(value[1], value[0] + 127) + 1)))
    if kind != "IN":
        return ""
    negates = str(value[0][0]) == "NEGATE"
    among = "".join(_characters(str(inner), part) for inner, part in value[negates:])
    return "".join(sorted(set(_WORD + _OTHERS) - set(among))) if negates else among
