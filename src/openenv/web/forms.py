"""The inputs of a form that writes an object, from the object's JSON Schema."""

import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_type_hints

from pydantic import PydanticSchemaGenerationError, PydanticUserError, create_model

from openenv.formats.json_text import json_text
from openenv.schema.message_schema import NOW
from openenv.schema.samples import resolved

Kind = Literal["choice", "integer", "number", "text", "json"]

_LONG_TEXT = 100
"""A text that may be longer gets several lines."""
_LONG_WORDS = ("code", "message", "text", "prompt", "source")
"""Words in the names of fields that mostly hold several lines."""


@dataclass(frozen=True, kw_only=True)
class Field:
    """An input of a form."""

    name: str
    label: str
    kind: Kind
    hint: str
    """The field's description with its unit and limits."""
    is_required: bool
    default: str = ""
    """What the input has at first; of a choice and of JSON it is JSON."""
    choices: tuple[tuple[str, str], ...] = ()
    """The value of each choice as JSON, and its name."""
    minimum: float | None = None
    maximum: float | None = None
    step: str = "any"
    min_length: int | None = None
    max_length: int | None = None
    pattern: str | None = None
    is_long: bool = False
    placeholder: str = ""


def fields_of(schema: Mapping[str, Any], *, without: frozenset[str] = frozenset({"metadata"})) -> list[Field]:
    """An input for each property of an object. schema: JSON Schema of the object. without: properties left out."""
    required = schema.get("required", ())
    return [
        _field(name, schema, part, is_required=name in required)
        for name, part in resolved(schema, schema).get("properties", {}).items()
        if name not in without
    ]


def keywords_schema(function: Callable[..., Any]) -> dict[str, Any]:
    """JSON Schema of the keywords that a function names, without `self`. A parameter whose annotation has no schema
    takes any JSON value."""
    hints = _hints(function)
    keywords: dict[str, Any] = {}
    for name, parameter in inspect.signature(function).parameters.items():
        if (
            name == "self"
            or name.startswith("_")
            or parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        ):
            continue
        default = ... if parameter.default is parameter.empty else parameter.default
        keywords[name] = (_with_schema(hints.get(name, Any)), default)
    return create_model("Keywords", **keywords).model_json_schema()  # type: ignore[no-any-return]


def takes_any_keyword(function: Callable[..., Any]) -> bool:
    """Whether the function takes keywords that it does not name."""
    parameters = inspect.signature(function).parameters.values()
    return any(parameter.kind is parameter.VAR_KEYWORD for parameter in parameters)


def _with_schema(annotation: Any) -> Any:
    try:
        create_model("Keyword", value=(annotation, ...)).model_json_schema()
    except (PydanticSchemaGenerationError, PydanticUserError):
        return Any
    return annotation


def _hints(function: Callable[..., Any]) -> dict[str, Any]:
    try:
        return get_type_hints(function, include_extras=True)
    except NameError:  # an annotation that exists for type checkers only
        return {}


def _field(name: str, root: Mapping[str, Any], part: Any, *, is_required: bool) -> Field:
    declared = resolved(root, part)
    options = [resolved(root, option) for option in declared.get("anyOf", ())]
    values = [option for option in options if option.get("type") != "null"]
    one = {**declared, **values[0]} if len(values) == 1 else declared
    kind = _kind(one)
    default = declared.get("default")
    longest = one.get("maxLength")
    return Field(
        name=name,
        label=name.replace("_", " "),
        kind=kind,
        hint=_hint(one, kind),
        is_required=is_required,
        default=_default(kind, default),
        choices=_choices(one),
        minimum=one.get("minimum", one["exclusiveMinimum"] + 1 if _is_above(one, kind) else None),
        maximum=one.get("maximum", one["exclusiveMaximum"] - 1 if _is_below(one, kind) else None),
        step=str(one.get("multipleOf", 1)) if kind == "integer" else "any",
        min_length=one.get("minLength"),
        max_length=longest,
        pattern=one.get("pattern"),
        is_long=(longest or 0) > _LONG_TEXT or (longest is None and any(word in name for word in _LONG_WORDS)),
        placeholder=_placeholder(one, kind),
    )


def _kind(schema: Mapping[str, Any]) -> Kind:
    if "enum" in schema or "const" in schema or schema.get("type") == "boolean":
        return "choice"
    kinds: dict[Any, Kind] = {"integer": "integer", "number": "number", "string": "text"}
    return kinds.get(schema.get("type"), "json") if isinstance(schema.get("type"), str) else "json"


def _is_above(schema: Mapping[str, Any], kind: Kind) -> bool:
    return kind == "integer" and "exclusiveMinimum" in schema


def _is_below(schema: Mapping[str, Any], kind: Kind) -> bool:
    return kind == "integer" and "exclusiveMaximum" in schema


def _choices(schema: Mapping[str, Any]) -> tuple[tuple[str, str], ...]:
    if schema.get("type") == "boolean" and "enum" not in schema:
        return (("true", "yes"), ("false", "no"))
    values = schema.get("enum", [schema["const"]] if "const" in schema else ())
    return tuple((json_text(value), str(value)) for value in values)


def _default(kind: Kind, default: Any) -> str:
    if default is None:
        return ""
    return json_text(default) if kind in ("choice", "json") else str(default)


def _hint(schema: Mapping[str, Any], kind: Kind) -> str:
    limits = {
        "minimum": "at least {}", "maximum": "at most {}",
        "exclusiveMinimum": "above {}", "exclusiveMaximum": "below {}",
        "minLength": "{} characters or more", "maxLength": "{} characters at most",
        "minItems": "{} entries or more", "maxItems": "{} entries at most", NOW: "in the {}",
    }  # fmt: skip
    unit = schema.get("unit") or schema.get("units")
    shown = [
        *([str(schema["description"]).rstrip(".")] if schema.get("description") else []),
        *([f"in {unit}"] if unit else []),
        *(text.format(schema[key]) for key, text in limits.items() if key in schema),
        *(["JSON"] if kind == "json" else []),
    ]
    return "; ".join(shown)


def _placeholder(schema: Mapping[str, Any], kind: Kind) -> str:
    examples = schema.get("examples") or []
    if kind != "json":
        return str(examples[0]) if examples else ""
    return json_text(examples[0]) if examples else {"array": "[]", "object": "{}"}.get(str(schema.get("type")), "")
