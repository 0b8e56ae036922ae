"""Tables of the messages of an environment: fields with their types, limits and meanings, from their JSON Schemas."""

import json
from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import BaseModel

from openenv.core.env_server.types import Action, Observation, State
from openenv.text.fields import LIMITS
from website.source import doc_of, found
from website.tables import code, table

_BASES = (Action, Observation, State)
_OF_ALL = {
    "Action": "",
    "Observation": "Every observation also has `reward`, `done` and `metadata`.",
    "State": "Every state also has `episode_id` and `step_count`.",
}
_MOST_WORDS = 12
_LIMITS = {
    **LIMITS,
    "pattern": "matches `{}`",
    "minItems": "at least {} items",
    "maxItems": "at most {} items",
    "shape": "shape {}",
    "low": "from {}",
    "high": "to {}",
}
"""Keywords of JSON Schema, and those of arrays, in words."""


def message_section(kind: str, message: type[BaseModel]) -> str:
    """A heading, what the message is, and the table of its own fields. kind: Action, Observation or State."""
    if message in _BASES:
        return f"### {kind}: {code(message.__name__)}\n\nIt has no fields of its own. {_OF_ALL[kind]}".rstrip()
    schema = message.model_json_schema()
    base = next(each for each in _BASES if each.__name__ == kind)
    own = {name: part for name, part in schema["properties"].items() if name not in base.model_fields}
    required = schema.get("required", ())
    rows = [_row(name, part, schema, name in required, _meaning(message, name, part)) for name, part in own.items()]
    text = doc_of(found(f"{message.__module__}.{message.__name__}")).markdown()
    head = ("Field", "Type", "Limits", "Default", "Meaning")
    parts = [f"### {kind}: {code(message.__name__)}", text, table(head, rows), _OF_ALL[kind]]
    parts += [_inner(name, inner, schema) for name, inner in _objects(own, schema)]
    return "\n\n".join(part.strip() for part in parts if part.strip())


def _row(
    name: str, part: Mapping[str, Any], root: Mapping[str, Any], is_required: bool, meaning: str
) -> tuple[str, ...]:
    """The row of a field."""
    return code(name), _type(part, root), _limits(part, root), _default(part, is_required), meaning


def _inner(name: str, schema: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """An object inside a message."""
    required = schema.get("required", ())
    rows = [
        _row(field, part, root, field in required, part.get("description", ""))
        for field, part in schema["properties"].items()
    ]
    text = " ".join(schema.get("description", "").split())
    return f"{code(name)}: {text}\n\n{table(('Field', 'Type', 'Limits', 'Default', 'Meaning'), rows)}"


def _objects(parts: Mapping[str, Any], root: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The objects that fields refer to, by their names, each once."""
    names = dict.fromkeys(_references(parts))
    for name in names:
        inner = root["$defs"][name]
        if "properties" in inner:
            yield name, inner
            yield from ((below, part) for below, part in _objects(inner, root) if below not in names)


def _references(part: Any) -> Iterator[str]:
    if isinstance(part, Mapping):
        if isinstance(part.get("$ref"), str):
            yield part["$ref"].rpartition("/")[2]
        for value in part.values():
            yield from _references(value)
    elif isinstance(part, list):
        for value in part:
            yield from _references(value)


def _type(part: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """The type of a field in words."""
    if "$ref" in part:
        name = part["$ref"].rpartition("/")[2]
        inner = root["$defs"][name]
        return code(name) if "properties" in inner else _type(inner, root)
    if "enum" in part:
        return _choice([json.dumps(value) for value in part["enum"]])
    if "const" in part:
        return code(json.dumps(part["const"]))
    for union in ("anyOf", "oneOf"):
        if union in part:
            return " or ".join(dict.fromkeys(_type(each, root) for each in part[union]))
    if part.get("contentMediaType"):
        return f"{part['contentMediaType']} in base64"
    if "dtype" in part or "shape" in part:
        return "array" if part.get("dtype", "any") == "any" else f"array of {part['dtype']}"
    if part.get("type") == "array":
        items = part.get("items")
        return f"list of {_type(items, root)}" if items else "list"
    plain = {"string": "text", "integer": "whole number", "number": "number", "boolean": "true or false"}
    return {**plain, "null": "null", "object": "object"}.get(str(part.get("type")), "any value")


def _choice(words: list[str]) -> str:
    shown = ", ".join(code(word) for word in words[:_MOST_WORDS])
    more = len(words) - _MOST_WORDS
    return f"{shown} and {more} more" if more > 0 else shown


def _limits(part: Mapping[str, Any], root: Mapping[str, Any]) -> str:
    """What the schema allows of the type."""
    if "$ref" in part:
        return _limits(root["$defs"][part["$ref"].rpartition("/")[2]], root)
    for union in ("anyOf", "oneOf"):
        if union in part:
            return "; ".join(dict.fromkeys(text for each in part[union] if (text := _limits(each, root))))
    return ", ".join(text.format(_bound(part[key])) for key, text in _LIMITS.items() if part.get(key) is not None)


def _bound(value: Any) -> str:
    return f"{value:,}" if isinstance(value, int) else str(value)


def _default(part: Mapping[str, Any], is_required: bool) -> str:
    if is_required:
        return "required"
    if "default" not in part:
        return ""
    text = json.dumps(part["default"])
    return code(text) if len(text) <= 40 else "a longer value"


def _meaning(message: type[BaseModel], name: str, part: Mapping[str, Any]) -> str:
    """The description of a field, or the docstring below it, in the class or in one that it derives from."""
    if part.get("description"):
        return str(part["description"])
    for kind in message.__mro__:
        if name in vars(kind).get("__annotations__", {}) and kind.__module__.startswith("openenv."):
            return doc_of(found(f"{kind.__module__}.{kind.__name__}").members[name]).text  # type: ignore[arg-type]
    return ""
