"""How a page shows an observation: images, grids, numbers and texts, by the declared fields and their values."""

from collections.abc import Mapping
from typing import Any

from openenv.core.env_server.types import Observation
from openenv.formats.json_text import json_text
from openenv.schema.legal_actions import LEGAL_FIELDS, NAME_FIELDS
from openenv.schema.message_schema import message_schema
from openenv.schema.samples import resolved
from openenv.text.content import image_part, image_type
from openenv.text.description import value_text

Part = dict[str, Any]
"""`name`, `kind` and what is shown: `src` of an `image`, `rows` of a `grid`, `value` of a `number`, a `text`, or of the
`details` that a page shows when asked."""

_HIDDEN = frozenset({"done", "reward", "metadata", "truncated", *LEGAL_FIELDS, *NAME_FIELDS})
"""Fields that the page shows elsewhere: the episode's, and the actions."""
_MOST_CELLS = 64
"""Rows and columns of a grid that is drawn."""
_FEWEST_COLUMNS = 3
"""Of a grid. Rows of two are pairs, such as places on a board."""
_MOST_NUMBERS = 8
"""Numbers of a list that are shown one by one, each with its history."""
_LEAST_PIXELS = 8
"""Rows and columns from which three numbers a cell are an image."""
_LONGEST = 20_000
"""Characters of a text that are shown."""
_NAMING = ("game_name", "game", "env_id", "domain_name", "task_name", "dataset")
"""Fields of a state, an observation or a setting that name what is played."""
_LONGEST_NAME = 60


def game_of(*sources: Mapping[str, Any]) -> str:
    """What is played, by the first of the sources that names it; an empty text where none does."""
    for source in sources:
        values = [source.get(field) for field in _NAMING]
        names = [name for name in values if isinstance(name, str) and name and len(name) <= _LONGEST_NAME]
        if names:
            return " ".join(" ".join(names).split())
    return ""


class ObservationView:
    """Shows the observations of an environment."""

    def __init__(self, *observation_classes: type[Observation]) -> None:
        """observation_classes: those that the environment declares; a later one wins where both have a field."""
        self._fields: dict[str, Mapping[str, Any]] = {}
        for observation_class in observation_classes:
            schema = message_schema(observation_class)
            self._fields |= {name: resolved(schema, part) for name, part in schema.get("properties", {}).items()}

    def parts(self, observation: Mapping[str, Any]) -> list[Part]:
        """The parts of an observation, in the order of its fields. observation: its fields as JSON values."""
        metadata = observation.get("metadata")
        parts = [
            part
            for name, value in observation.items()
            if name not in _HIDDEN and value is not None
            for part in self._parts(name, value)
        ]
        if isinstance(metadata, Mapping):
            parts += _metadata_parts(metadata)
        return parts

    def _parts(self, name: str, value: Any) -> list[Part]:
        schema = self._fields.get(name, {})
        unit = str(schema.get("unit") or schema.get("units") or "")
        media_type = image_type(schema)
        if media_type is not None or _is_frame(value):
            return [_image(name, value, media_type or "image/png")]
        if _is_number(value):
            return [_number(name, value, unit)]
        if isinstance(value, list) and len(value) <= _MOST_NUMBERS and value and all(map(_is_number, value)):
            return [_number(f"{name} {index}", number, unit) for index, number in enumerate(value)]
        rows = _rows(value)
        if rows is not None:
            return [{"name": name, "kind": "grid", "rows": rows}]
        text = _result_text(value)
        if text:
            folded = {"name": f"{name} as JSON", "kind": "details", "value": _text(value)}
            return [{"name": name, "kind": "text", "value": text}, folded]
        num_numbers = _num_numbers(value)
        if num_numbers > _MOST_NUMBERS:
            return [{"name": f"{name}, {num_numbers:,} numbers", "kind": "details", "value": _text(value)}]
        return [{"name": name, "kind": "text", "value": _text(value)}]


def _metadata_parts(metadata: Mapping[str, Any]) -> list[Part]:
    """A board in the metadata is drawn; all else is one text."""
    rest = {name: value for name, value in metadata.items() if name not in _HIDDEN}
    boards = {name: _rows(value) for name, value in rest.items()}
    parts: list[Part] = [{"name": name, "kind": "grid", "rows": rows} for name, rows in boards.items() if rows]
    texts = {
        name: value for name, value in rest.items() if isinstance(value, str) and "\n" in value and not boards[name]
    }
    parts += [{"name": name, "kind": "text", "value": value[:_LONGEST]} for name, value in texts.items()]
    others = {name: value for name, value in rest.items() if not boards[name] and name not in texts}
    if others:
        parts.append({"name": "metadata", "kind": "details", "value": _text(others)})
    return parts


def _image(name: str, value: Any, media_type: str) -> Part:
    """The image, or why it cannot be shown: that must not hide the other fields."""
    try:
        return {"name": name, "kind": "image", "src": image_part(name, value, media_type)["image"]}
    except (ValueError, ImportError) as error:  # other pixels; without numpy or Pillow
        return {"name": name, "kind": "text", "value": str(error)}


def _number(name: str, value: Any, unit: str) -> Part:
    return {"name": name, "kind": "number", "value": value, "unit": unit}


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _result_text(value: Any) -> str:
    """The texts in the result of a tool, as MCP writes it; an empty text for all else."""
    content = value.get("content") if isinstance(value, Mapping) else None
    blocks = [block for block in content if isinstance(block, Mapping)] if isinstance(content, list) else []
    return "\n".join(str(block.get("text", "")) for block in blocks if block.get("type") == "text")[:_LONGEST]


def _num_numbers(value: Any) -> int:
    """Of a tensor: a number, or lists of such. 0 for all else."""
    if not isinstance(value, list):
        return int(_is_number(value))
    counts = [_num_numbers(part) for part in value]
    return sum(counts) if all(counts) else 0


def _is_frame(value: Any) -> bool:
    """Whether a value is pixels: rows of columns of red, green and blue."""
    return (
        _is_table(value)
        and min(len(value), len(value[0])) >= _LEAST_PIXELS
        and all(isinstance(cell, list) and len(cell) == 3 for cell in value[0])
        and all(isinstance(part, int) and 0 <= part <= 255 for cell in value[0] for part in cell)
    )


def _rows(value: Any) -> list[list[str]] | None:
    """The cells of a grid, if the value is one: a table of numbers and short words, or lines of one length."""
    if isinstance(value, str):
        lines = value.strip("\n").split("\n")
        widths = {len(line) for line in lines}
        is_board = len(lines) > 1 and len(widths) == 1 and 1 < widths.pop() <= _MOST_CELLS >= len(lines)
        return [list(line) for line in lines] if is_board and " " not in value else None
    if not _is_table(value) or not _FEWEST_COLUMNS <= len(value[0]) <= _MOST_CELLS or len(value) > _MOST_CELLS:
        return None
    cells = [cell for row in value for cell in row]
    if not all(_is_number(cell) or (isinstance(cell, str) and len(cell) <= 3) for cell in cells):
        return None
    return [[value_text(cell) for cell in row] for row in value]


def _is_table(value: Any) -> bool:
    if not isinstance(value, list) or len(value) < 2 or not all(isinstance(row, list) for row in value):
        return False
    return len(value[0]) > 1 and all(len(row) == len(value[0]) for row in value)


def _text(value: Any) -> str:
    if isinstance(value, list) and all(map(_is_number, value)):
        return value_text(value)
    text = value if isinstance(value, str) else json_text(value, indent=1, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}\n... {len(text) - _LONGEST:,} further characters"
