"""The fields of a JSON Schema in words: their types, limits and descriptions."""

from collections.abc import Mapping
from typing import Any

from openenv.schema.message_schema import NOW
from openenv.schema.samples import resolved

_DEEPEST = 3
"""Schemas may contain themselves. Deeper parts are named by their type alone."""

LIMITS = {
    "minimum": "at least {}",
    "maximum": "at most {}",
    "exclusiveMinimum": "above {}",
    "exclusiveMaximum": "below {}",
    "multipleOf": "a multiple of {}",
    "minLength": "at least {} characters",
    "maxLength": "at most {} characters",
    "pattern": "matching {}",
    NOW: "in the {}",
}
"""Keywords of JSON Schema in words."""


def fields_text(schema: Mapping[str, Any]) -> str:
    """A line for each field of an object's schema: type, limits, description, and whether it may be left out."""
    lines = []
    for name, part in schema.get("properties", {}).items():
        if name == "metadata":
            continue
        field = resolved(schema, part)
        optional = "" if name in schema.get("required", ()) else ", optional"
        described = f": {field['description']}" if field.get("description") else ""
        lines.append(f"- {name} ({_kind(schema, field, 0)}{optional}){described}")
    return "\n".join(lines) or "- no arguments"


def limits(schema: Mapping[str, Any]) -> str:
    """The limits of a number or a text, such as `, at least 0, at most 9`; empty if there are none."""
    return "".join(f", {text.format(schema[key])}" for key, text in LIMITS.items() if key in schema)


def _kind(root: Mapping[str, Any], part: Any, depth: int) -> str:
    """The type of a value with its limits, such as `list of 2: integer, at least 0`."""
    schema = resolved(root, part)
    values = schema.get("enum") or ([schema["const"]] if "const" in schema else None)
    if values:
        return f"one of {', '.join(map(str, values))}" if len(values) > 1 else str(values[0])
    alternatives = schema.get("anyOf") or schema.get("oneOf")
    if alternatives:
        kinds = list(dict.fromkeys(_kind(root, one, depth + 1) for one in alternatives))
        others = [kind for kind in kinds if kind != "null"]
        return " or ".join(others) + (", or null" if len(others) < len(kinds) else "")
    kind = schema.get("type", "any value")
    if isinstance(kind, list):
        return " or ".join(kind) + limits(schema)
    if kind == "array":
        return f"list{_length(schema)}{_items(root, schema, depth)}"
    if kind == "object":
        return f"object{_members(root, schema, depth)}"
    return f"{kind}{limits(schema)}"


def _length(schema: Mapping[str, Any]) -> str:
    """How many items a list has."""
    least, most = schema.get("minItems", 0), schema.get("maxItems")
    if most is None:
        return f" of at least {least}" if least else ""
    return f" of {most}" if least == most else f" of {least} to {most}"


def _items(root: Mapping[str, Any], schema: Mapping[str, Any], depth: int) -> str:
    """What the items of a list are; empty where all are allowed, or too deep to be described."""
    if depth >= _DEEPEST:
        return ""
    if schema.get("prefixItems"):
        return f": {'; '.join(_kind(root, item, depth + 1) for item in schema['prefixItems'])}"
    return f": {_kind(root, schema['items'], depth + 1)}" if schema.get("items") else ""


def _members(root: Mapping[str, Any], schema: Mapping[str, Any], depth: int) -> str:
    """What the fields of an object are; empty where all are allowed, or too deep to be described."""
    if depth >= _DEEPEST:
        return ""
    named = schema.get("properties", {})
    if named:
        optional = {name: "" if name in schema.get("required", ()) else ", optional" for name in named}
        parts = (f"{name} ({_kind(root, part, depth + 1)}{optional[name]})" for name, part in named.items())
        return f" with {', '.join(parts)}"
    others = schema.get("additionalProperties")
    return f" of names to {_kind(root, others, depth + 1)}" if isinstance(others, Mapping) and others else ""
