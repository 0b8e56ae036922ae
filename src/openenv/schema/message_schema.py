"""The JSON Schema of a class of messages."""

from collections.abc import Mapping
from typing import Any, Literal

from pydantic import BaseModel
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema

NOW = "relativeToNow"
"""A key of a date's schema, which JSON Schema has no word for: `past` or `future`."""

ANY_DTYPE = "any"
"""The `dtype` in the JSON Schema of an Array without a `Box`."""


class _MessageSchema(GenerateJsonSchema):
    """Says what a message reads or writes, where pydantic says less or something else."""

    def date_schema(self, schema: Any) -> dict[str, Any]:
        """With whether it is in the past or the future."""
        return _with_now(super().date_schema(schema), schema)

    def datetime_schema(self, schema: Any) -> dict[str, Any]:
        """The same of a time."""
        return _with_now(super().datetime_schema(schema), schema)

    def ser_schema(self, schema: Any) -> dict[str, Any] | None:
        """Of an author's serializer without a return annotation: any value. pydantic takes the type of the field."""
        is_function = schema["type"] in ("function-plain", "function-wrap")
        if is_function and schema.get("return_schema") is None and not _is_of_pydantic(schema["function"]):
            return {}
        return super().ser_schema(schema)

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:
        """Of a type without a schema, such as a tensor: any value."""
        return {}


def _is_of_pydantic(function: Any) -> bool:
    """Whether a type of pydantic's own, such as Sequence, is written by the function."""
    return str(getattr(function, "__module__", "")).startswith("pydantic")


def _with_now(described: dict[str, Any], schema: Any) -> dict[str, Any]:
    return {**described, NOW: schema["now_op"]} if "now_op" in schema else described


def message_schema(
    message_class: type[BaseModel],
    *,
    mode: Literal["validation", "serialization"] = "validation",
    by_alias: bool = True,
) -> dict[str, Any]:
    """The JSON Schema of a class, where any value is allowed for a type that has none.

    Args:
        message_class: The class, which an author may have written.
        mode: What the class reads, or what it writes.
        by_alias: Whether fields have the names of their aliases.
    """
    asked: dict[str, Any] = {} if mode == "validation" else {"mode": mode}
    asked |= {} if by_alias else {"by_alias": False}
    if message_class.model_json_schema.__func__ is BaseModel.model_json_schema.__func__:  # type: ignore[attr-defined]
        schema = message_class.model_json_schema(**asked, schema_generator=_MessageSchema)
        return schema or {"title": message_class.__name__, "type": "object", "additionalProperties": True}
    try:
        return message_class.model_json_schema(**asked)  # an author's own, which may take nothing else
    except PydanticInvalidForJsonSchema:
        return message_class.model_json_schema(**asked, schema_generator=_MessageSchema)


def is_array_schema(schema: Mapping[str, Any]) -> bool:
    """Whether a JSON Schema is that of an Array."""
    return schema.get("dtype") == ANY_DTYPE or schema.keys() >= {"dtype", "low", "high"}
