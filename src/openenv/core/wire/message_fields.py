"""What a server writes of a message's fields, and how a client reads them as its own class."""

import math
from collections.abc import Iterator
from copy import deepcopy
from functools import lru_cache
from typing import Any, TypeVar

from pydantic import BaseModel, ValidationError

from openenv.core.errors import UnreadableResponse
from openenv.core.wire.json_codec import to_plain

ModelT = TypeVar("ModelT", bound=BaseModel)

_MOST_NAMED = 5
_MODELS = ("model", "dataclass", "definition-ref")


@lru_cache(maxsize=256)
def has_models(cls: type[BaseModel]) -> bool:
    """Whether a field may hold models, which are then written with the fields of their own classes.

    Not where a field has a serializer: pydantic leaves it out where values are written by their own classes.
    """
    parts = list(_parts(cls.__pydantic_core_schema__))
    has_serializer = any(str(part.get("type", "")).startswith("function-") for part in map(_serialization, parts))
    return not has_serializer and sum(schema.get("type") in _MODELS for schema in parts) > 1


def _serialization(schema: dict[str, Any]) -> dict[str, Any]:
    found = schema.get("serialization")
    return found if isinstance(found, dict) else {}


def _parts(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        yield schema
    for inner in schema.values() if isinstance(schema, dict) else schema if isinstance(schema, list | tuple) else ():
        yield from _parts(inner)


def read_message(cls: type[ModelT], fields: dict[str, Any]) -> ModelT:
    """The fields of a response as an object of the class, or of a subclass that has further ones.

    Fields may have their own names or their aliases. Computed ones are computed again. Objects inside may be of
    subclasses: what the class does not know of them is left out. A null where a number must be is NaN, which JSON does
    not have. Raises UnreadableResponse for other fields.
    """
    computed = cls.model_computed_fields
    if computed:
        fields = {name: value for name, value in fields.items() if name not in computed}
    try:
        return _validated(cls, fields)
    except ValidationError as error:
        for subclass in cls.__subclasses__():
            try:
                return read_message(subclass, fields)
            except UnreadableResponse:
                continue
        known = _as_written(fields, error)
        if known is not None:
            return read_message(cls, known)
        raise UnreadableResponse(f"the response is no {cls.__name__} of this client: {_text(error)}") from error


def unwritable(message: BaseModel, error: Exception) -> str:
    """The first field of a message that JSON cannot have, with the remedy. error: what writing the message raised."""
    cls = type(message)
    for name in cls.model_fields:
        try:
            cls.__pydantic_serializer__.to_json(message, include={name}, fallback=to_plain, warnings=False)
        except (ValueError, TypeError) as reason:
            return (
                f"{cls.__name__}.{name} cannot be written as JSON ({reason}): give it a value that JSON has. "
                "Bytes that are no UTF-8 are a field of pydantic.Base64Bytes"
            )
    return str(error) or type(error).__name__


def _validated(cls: type[ModelT], fields: dict[str, Any]) -> ModelT:
    if cls.model_validate.__func__ is not BaseModel.model_validate.__func__:  # type: ignore[attr-defined]
        return cls.model_validate(fields)  # the author's own
    read: ModelT = cls.__pydantic_validator__.validate_python(fields, by_alias=True, by_name=True)
    return read


def _as_written(fields: dict[str, Any], error: ValidationError) -> dict[str, Any] | None:
    """The fields with NaN for each null of a number, and without those that objects inside them may not have.

    None where something else is wrong.
    """
    rows = error.errors(include_url=False, include_input=False, include_context=False)
    known = deepcopy(fields)
    try:
        for row in rows:
            *path, name = row["loc"]
            holder: Any = known
            for part in path:
                holder = holder[part]
            if row["type"] == "extra_forbidden" and path:
                del holder[name]
            elif row["type"] == "float_type" and holder[name] is None:
                holder[name] = math.nan
            else:
                return None
    except (LookupError, TypeError):  # a place names the member of a union
        return None
    return known


def _text(error: ValidationError) -> str:
    rows = error.errors(include_url=False, include_context=False)
    return "; ".join(
        f"{'.'.join(map(str, row['loc']))}: {row['msg']} (got {row.get('input')!r:.80})" for row in rows[:5]
    )
