"""JSON as its standard has it (RFC 8259), and files of JSON lines.

Python's own `json.dumps` writes NaN and Infinity, which other readers refuse; the linter keeps it out of this package.
"""

import json
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

from openenv.formats.text_file import read_utf8


def json_text(
    value: Any,
    *,
    indent: int | None = None,
    sort_keys: bool = False,
    ensure_ascii: bool = True,
    default: Callable[[Any], Any] | None = None,
) -> str:
    """`value` as JSON, with null for each number that JSON does not have: NaN and the infinities.

    The arguments are those of `json.dumps`. Raises TypeError for a value that `default` does not make plain.
    """

    def written(plain: Any) -> str:
        return json.dumps(
            plain, indent=indent, sort_keys=sort_keys, ensure_ascii=ensure_ascii, default=default, allow_nan=False
        )

    try:
        return written(value)
    except ValueError:  # also for a value that contains itself, which is refused below
        return written(_finite(json.loads(json.dumps(value, default=default))))


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_finite(item) for item in value]
    return None if isinstance(value, float) and not math.isfinite(value) else value


def json_lines(path: Path) -> list[str]:
    """The lines of a UTF-8 file of JSON lines. Only a line feed ends one: texts may hold the other separators.

    Not `str.splitlines`, which also splits at U+0085, U+2028 and others, that JSON strings have as they are.
    """
    *lines, rest = read_utf8(path).split("\n")
    return [*lines, rest] if rest else lines


def object_of(line: str) -> dict[str, Any] | None:
    """The JSON object of a line; None for another line, such as the last one of a file whose writer was killed."""
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):  # also for a number of thousands of digits
        return None
    return found if isinstance(found, dict) else None


def json_or_word(text: str) -> Any:
    """The JSON value that a text is; another text itself."""
    try:
        return json.loads(text)
    except json.JSONDecodeError:
        return text
