"""Describes observations in a few words, from their declared fields."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from openenv.core.env_server.types import Observation
from openenv.schema.legal_actions import LEGAL_FIELDS, NAME_FIELDS
from openenv.schema.message_schema import message_schema
from openenv.schema.samples import resolved
from openenv.text.content import Content, image_part, image_type, joined

_HIDDEN = frozenset({"done", "reward", "metadata", *LEGAL_FIELDS, *NAME_FIELDS})
"""Fields that describe the episode, or the legal actions, which the reply's form lists."""
_LONGEST_ROW = 16
"""Numbers of a list that are all shown."""
_MOST_NUMBERS = 1000
"""Numbers of nested lists that are all shown; of more, such as pixels, the lengths and the range are."""
_SPARSE = 0.25
"""A longer list or a grid shows its marked cells only, if they are at most this share of it."""


class ObservationDescriber:
    """Describes the observations of one class: `name: value` a line, or the value alone where there is one field.

    Numbers have three significant digits and their declared unit. A grid in which most cells are equal becomes the row
    and column of each other cell, counted from 0; other grids are written row by row. What has several lines begins
    below its name. Images follow the text.
    """

    def __init__(self, observation_class: type[Observation]) -> None:
        schema = message_schema(observation_class)
        properties = {
            name: resolved(schema, part) for name, part in schema.get("properties", {}).items() if name not in _HIDDEN
        }
        self._units = {name: str(part.get("unit") or part.get("units") or "") for name, part in properties.items()}
        types = {name: image_type(part) for name, part in properties.items()}
        self._image_types = {name: media_type for name, media_type in types.items() if media_type is not None}
        self._descriptions = {name: part["description"] for name, part in properties.items() if part.get("description")}

    def describe(self, observation: Observation) -> Content:
        """The fields that have a value, in their declared order, images last; `nothing` if none has."""
        images: list[Content] = []
        for name, media_type in self._image_types.items():
            value = getattr(observation, name)
            if value is not None:
                images += [f"{name}:" if len(self._units) > 1 else "", [image_part(name, value, media_type)]]
        return joined(self._words(observation, "" if images else "nothing"), *images)

    def _words(self, observation: Observation, otherwise: str) -> str:
        """The fields without images; `otherwise` if none has a value."""
        fields = {
            name: value
            for name, value in observation.model_dump(mode="json", exclude=set(self._image_types)).items()
            if name not in _HIDDEN and value is not None
        }
        if len(fields) == 1 and len(self._units) <= 1:
            ((name, value),) = fields.items()
            return self._text(name, value)
        return "\n".join(_line(name, self._text(name, value)) for name, value in fields.items()) or otherwise

    def explanation(self) -> str:
        """The fields' own descriptions; empty if they have none."""
        units = {name: f" ({unit})" if unit else "" for name, unit in self._units.items()}
        return "\n".join(f"{name}{units[name]}: {text}" for name, text in self._descriptions.items())

    def _text(self, name: str, value: Any) -> str:
        unit = self._units.get(name)
        return f"{value_text(value)} {unit}" if unit else value_text(value)


def _line(name: str, text: str) -> str:
    """`name: text`; several lines begin below the name, so that the columns of a board are aligned."""
    return f"{name}:\n{text}" if "\n" in text else f"{name}: {text}"


def value_text(value: Any) -> str:
    """A JSON value in words."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:.3g}"
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {value_text(part)}" for key, part in value.items()) or "none"
    if isinstance(value, list):
        return _list_text(value)
    return str(value)


def _list_text(values: list[Any]) -> str:
    if not values:
        return "none"
    if all(isinstance(value, list) for value in values):
        return _range_text(values) or _grid_text(values)
    if all(isinstance(value, Mapping) and len(value) > 1 for value in values):  # rows, such as a tool returns
        return "\n".join(map(value_text, values))
    if not all(_is_number(value) for value in values):
        return ", ".join(map(value_text, values))
    marked = _marked_cells([values]) if len(values) > _LONGEST_ROW else None
    if marked is not None:
        return ", ".join(f"{value_text(value)} at {column}" for value, _, column in marked) or f"all {values[0]}"
    return " ".join(map(value_text, values))


def _range_text(rows: list[list[Any]]) -> str:
    """The lengths of a large array of three dimensions or more, and its range; empty for any other list."""
    lengths, numbers = [len(rows)], list[Any](rows)
    while numbers and isinstance(numbers[0], list) and all(isinstance(row, list) for row in numbers):
        lengths.append(len(numbers[0]))
        numbers = [part for row in numbers for part in row]
    if len(lengths) < 3 or len(numbers) <= _MOST_NUMBERS or not all(map(_is_number, numbers)):
        return ""
    sizes = " x ".join(map(str, lengths))
    return f"{sizes} numbers from {value_text(min(numbers))} to {value_text(max(numbers))}"


def _grid_text(rows: list[list[Any]]) -> str:
    is_flat = all(_is_number(cell) or isinstance(cell, str) for row in rows for cell in row)
    marked = _marked_cells(rows) if is_flat else None
    if marked:
        return ", ".join(f"{value_text(value)} at row {row} column {column}" for value, row, column in marked)
    return "\n".join(" ".join(map(value_text, row)) for row in rows)


def _marked_cells(rows: Sequence[Sequence[Any]]) -> list[tuple[Any, int, int]] | None:
    """Value, row and column of the cells that differ from most; None if they are too many to be listed."""
    counts = Counter(cell for row in rows for cell in row)
    if not counts:
        return None
    (usual, count), total = counts.most_common(1)[0], counts.total()
    if total - count > max(2, _SPARSE * total):
        return None
    return [(cell, y, x) for y, row in enumerate(rows) for x, cell in enumerate(row) if cell != usual]


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float)
