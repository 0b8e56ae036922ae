"""Makes message classes from JSON Schemas, for servers whose own classes are not on this machine."""

import importlib.util
import types
from collections.abc import Mapping
from functools import reduce
from operator import or_
from typing import Annotated, Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, create_model

from openenv.core.wire.arrays import Array
from openenv.core.wire.boxes import Box
from openenv.formats.json_text import json_text
from openenv.schema.message_schema import ANY_DTYPE, is_array_schema
from openenv.schema.samples import resolved

Message = TypeVar("Message", bound=BaseModel)

_LIMITS = {
    "minimum": "ge",
    "maximum": "le",
    "exclusiveMinimum": "gt",
    "exclusiveMaximum": "lt",
    "multipleOf": "multiple_of",
    "minLength": "min_length",
    "maxLength": "max_length",
    "pattern": "pattern",
    "minItems": "min_length",
    "maxItems": "max_length",
}
_BUILT = {
    *("type", "const", "enum", "anyOf", "oneOf", "allOf", "$ref", "$defs", "discriminator", "items", "properties"),
    *("required", "additionalProperties", "default", "title", "description", "examples"),
}
"""What a field's annotation and its arguments say. All other keys of a schema are kept as they are."""
_OF_ARRAYS = frozenset({"dtype", "shape", "low", "high", "prefixItems"})
"""What an Array and its Box say."""
_HAS_NUMPY = importlib.util.find_spec("numpy") is not None
"""Without it, arrays are nested lists."""
_MAX_TYPES = 3000
_PLAIN: Mapping[str, Any] = {"integer": int, "number": float, "boolean": bool, "string": str, "null": None}


def message_class(schema: Mapping[str, Any], base: type[Message]) -> type[Message]:
    """A subclass of `base` with the fields of an object's schema: its own schema says all that the given one says.

    Fields of `base` are left as they are. Unknown fields are refused where the schema refuses them. Of types that
    contain themselves, the inner value is not checked. Raises ValueError for a schema that describes no object, or very
    many types.
    """
    root = resolved(schema, schema)
    if root.get("type", "object") != "object":
        raise ValueError(f"a message's schema must describe an object, not {root.get('type')!r}")
    return _ClassMaker(schema).object_class(root, base)


class _ClassMaker:
    """Makes the classes of one schema."""

    def __init__(self, root: Mapping[str, Any]) -> None:
        self._root = root
        self._open_references: list[str] = []
        self._num_types = 0

    def object_class(self, schema: Mapping[str, Any], base: type[Message]) -> type[Message]:
        """A class for a schema of type object."""
        required = set(schema.get("required", ()))
        fields: dict[str, Any] = {
            name: self._field(part, is_required=name in required)
            for name, part in schema.get("properties", {}).items()
            if name not in base.model_fields
        }
        refuses_others = schema.get("additionalProperties", True) is False
        config = ConfigDict(
            extra="forbid" if refuses_others else "allow",
            protected_namespaces=(),
            json_schema_extra={
                **_further(schema),
                **({"examples": schema["examples"]} if "examples" in schema else {}),
            },
        )
        parent = types.new_class(base.__name__, (base,), {}, lambda body: body.update(model_config=config))
        made: type[Message] = create_model(str(schema.get("title") or base.__name__), __base__=parent, **fields)
        made.__doc__ = schema.get("description") or (None if base is BaseModel else base.__doc__)
        return made

    def _field(self, part: Any, *, is_required: bool) -> tuple[Any, Any]:
        schema = resolved(self._root, part)
        described = {**_described(schema), "title": schema.get("title"), "description": schema.get("description")}
        annotation = self._annotation(part)
        if is_required or "default" in schema:
            return annotation, Field(... if is_required else schema["default"], **described)
        # its default is the server's own, which applies where the field is not sent
        return annotation | None, Field(None, exclude_if=_is_none, **described)

    def _annotation(self, part: Any) -> Any:
        self._num_types += 1
        if self._num_types > _MAX_TYPES:  # each reference is followed anew: a small schema can describe very many
            raise ValueError(f"the schema describes more than {_MAX_TYPES} types")
        reference = part.get("$ref") if isinstance(part, Mapping) else None
        if reference is None:
            schema = resolved(self._root, part)
            described = _described(schema)
            known = {key: value for key, value in described.items() if value}
            return Annotated[self._type(schema), Field(**known)] if known else self._type(schema)
        if reference in self._open_references:
            return Any
        self._open_references.append(reference)
        try:
            return self._type(resolved(self._root, part))
        finally:
            self._open_references.pop()

    def _type(self, schema: Mapping[str, Any]) -> Any:
        if "const" in schema:
            return Literal[schema["const"]]
        if schema.get("enum"):
            return Literal[tuple(schema["enum"])]
        for key in ("anyOf", "oneOf"):
            if schema.get(key):
                return reduce(or_, map(self._annotation, schema[key]))
        kind = schema.get("type")
        if isinstance(kind, list):
            return reduce(or_, (self._type({**schema, "type": one}) for one in kind))
        if is_array_schema(schema) and _HAS_NUMPY:
            return Array if schema["dtype"] == ANY_DTYPE else Annotated[Array, Box.of_schema(schema)]
        limits = {name: schema[key] for key, name in _LIMITS.items() if key in schema}
        plain = self._container(str(kind), schema) if kind in ("array", "object") else _PLAIN.get(str(kind), Any)
        return Annotated[plain, Field(**limits)] if limits else plain

    def _container(self, kind: str, schema: Mapping[str, Any]) -> Any:
        if kind == "array":
            return list[self._annotation(schema.get("items", {}))]  # type: ignore[misc]
        if schema.get("properties"):
            return self.object_class(schema, BaseModel)
        return dict[str, self._annotation(schema.get("additionalProperties", {}))]  # type: ignore[misc]


def _described(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The examples of a schema and its further keys, such as units and formats, as arguments of a field."""
    return {"examples": schema.get("examples"), "json_schema_extra": _further(schema) or None}


def _further(schema: Mapping[str, Any]) -> dict[str, Any]:
    """The keys of a schema that no annotation expresses, without those that refer to other parts of it."""
    limits = set(_LIMITS) if schema.get("type") in ("string", "integer", "number", "array") else set()
    limits |= _OF_ARRAYS if is_array_schema(schema) and _HAS_NUMPY else set()
    further = {key: value for key, value in schema.items() if key not in _BUILT and key not in limits}
    return {key: value for key, value in further.items() if "$ref" not in json_text(value)}


def _is_none(value: Any) -> bool:
    return value is None
