"""The JSON Schema of a class of messages."""

from typing import Any, Literal

from pydantic import BaseModel
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.json_schema import GenerateJsonSchema


class _OpenWhereUnknown(GenerateJsonSchema):
    """Allows any value where a field's type has no schema, such as a tensor."""

    def handle_invalid_for_json_schema(self, schema: Any, error_info: str) -> dict[str, Any]:
        return {}


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
    try:
        return message_class.model_json_schema(**asked)  # an author's own may take nothing else
    except PydanticInvalidForJsonSchema:
        return message_class.model_json_schema(**asked, schema_generator=_OpenWhereUnknown)
