"""Finds JSON objects among the words of a reply, also with comments, a comma too many, or as Python writes them."""

import ast
import json
import re
from collections.abc import Iterator
from typing import Any

from openenv.text.mentions import is_denied

_MOST_BRACES = 200
"""Opening braces that are tried: a text of nothing else has no object."""
_MOST_READ = 500_000
"""Characters that are read, counted anew for each brace: after so many, the braces that are left are not tried."""
_OPENS_OBJECT = re.compile(r"\{\s*(?:[\"'}]|[\w-]+\s*:)|\{\s*\Z")
_TEXT = r'("(?:\\.|[^"\\])*(?:"|\Z))'
_COMMENT = re.compile(rf"{_TEXT}|//[^\n]*|/\*.*?(?:\*/|\Z)", re.DOTALL)
_TRAILING_COMMA = re.compile(rf"{_TEXT}|,(?=\s*[}}\]])", re.DOTALL)
_TYPOGRAPHIC = str.maketrans("“”", '""')


def objects_in(text: str) -> Iterator[dict[str, Any]]:
    """The objects in a text, from the left, but those that it denies, as in `do not use {...}`. Objects inside another
    one are part of it, also where it cannot be read."""
    start, tries, read = text.find("{"), 0, 0
    while start >= 0 and tries < _MOST_BRACES and read < _MOST_READ:
        found, end = object_at(text, start)
        tries, read = tries + 1, read + end - start
        if found is not None:
            if not is_denied(text, start):
                yield found
        elif not _OPENS_OBJECT.match(text, start):
            end = start + 1
        start = text.find("{", end)


def object_at(text: str, start: int) -> tuple[dict[str, Any] | None, int]:
    """The object of the opening brace there, and the place after its closing brace; None for one that is none."""
    try:
        found, end = _DECODER.raw_decode(text, start)
    except (ValueError, RecursionError):
        end = _closing(text, start)
        written = text[start:end]
        found = _lenient(written) if written.endswith("}") else None
    return (found if isinstance(found, dict) else None), end


def _lenient(written: str) -> Any:
    """An object with comments, commas before closing brackets or typographic quotation marks, or in the notation of
    Python; None if it is neither."""
    plain = written if '"' in written else written.translate(_TYPOGRAPHIC)
    for pattern in (_COMMENT, _TRAILING_COMMA):
        plain = pattern.sub(lambda match: match[1] or "", plain)
    try:
        return _DECODER.decode(plain)
    except _TwoValues:
        return None
    except (json.JSONDecodeError, RecursionError):
        pass
    try:
        found = ast.literal_eval(written)
        json.dumps(found, allow_nan=False)  # noqa: TID251  it refuses what is no JSON
    except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
        return None
    return found if _has_text_keys(found) else None


class _TwoValues(ValueError):
    """An object has a key twice, with different values."""


def _as_object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if any(found[key] != value for key, value in pairs):
        raise _TwoValues
    return found


_DECODER = json.JSONDecoder(object_pairs_hook=_as_object)


def _has_text_keys(value: Any) -> bool:
    """Whether JSON can have the value as it is: the keys of its objects are texts, and it has no tuples."""
    if isinstance(value, dict):
        return all(isinstance(key, str) and _has_text_keys(part) for key, part in value.items())
    return not isinstance(value, tuple) and (not isinstance(value, list) or all(map(_has_text_keys, value)))


def _closing(text: str, start: int) -> int:
    """The place after the brace that closes the one at `start`; the end of the text without one."""
    depth, quote, place = 0, "", start
    while place < len(text):
        char = text[place]
        if quote:
            place += char == "\\"
            quote = "" if char == quote else quote
        elif char in "\"'" and not (char == "'" and text[place - 1].isalnum()):
            quote = char
        elif char in "{}":
            depth += 1 if char == "{" else -1
            if depth == 0:
                return place + 1
        place += 1
    return len(text)
