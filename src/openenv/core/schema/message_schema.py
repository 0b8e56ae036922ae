"""The JSON Schema of a class of messages."""

from typing import Any, Literal

from pydantic import BaseModel
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
    return message_class.model_json_schema(by_alias, schema_generator=_OpenWhereUnknown, mode=mode)
