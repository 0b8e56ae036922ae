"""What a server writes of a message's fields, and how a client reads them as its own class."""

import math
from collections.abc import Iterator, Mapping
from copy import deepcopy
from functools import lru_cache
from types import UnionType
from typing import Annotated, Any, TypeVar, Union, get_args, get_origin

from pydantic import BaseModel, ValidationError

from openenv.core.errors import UnreadableResponse
from openenv.core.wire.arrays import has_array_fields
from openenv.core.wire.json_codec import to_plain, write_json

ModelT = TypeVar("ModelT", bound=BaseModel)

_UNIONS = ("union", "tagged-union")
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

    Fields may have their own names or their aliases. Computed ones are computed again; of several classes that a field
    may hold, they decide which one is read. Objects inside may be of subclasses: what the class does not know of them
    is left out. A null where a number must be is NaN, which JSON does not have. Raises UnreadableResponse for other
    fields.
    """
    computed = cls.model_computed_fields
    if computed:
        fields = {name: value for name, value in fields.items() if name not in computed}
    if has_choices(cls):
        declared = cls.model_fields
        fields = {
            name: _with_objects(declared[name].annotation, value) if name in declared else value
            for name, value in fields.items()
        }
    try:
        return _validated(cls, fields)
    except ValidationError as error:
        for subclass in cls.__subclasses__():
            try:
                return read_message(subclass, fields)
            except UnreadableResponse:
                continue
        known = _as_written(fields, error, has_own_fields=not cls.__pydantic_decorators__.model_serializers)
        if known is not None:
            return read_message(cls, known)
        raise UnreadableResponse(f"the response is no {cls.__name__} of this client: {_text(error)}") from error


@lru_cache(maxsize=256)
def has_choices(cls: type[BaseModel]) -> bool:
    """Whether a field may hold one of several models, and a model inside has computed fields."""
    parts = list(_parts(getattr(cls, "__pydantic_core_schema__", None)))
    choices = (part for part in parts if part.get("type") in _UNIONS)
    models = [part["cls"] for part in parts if "cls" in part and part["cls"] is not cls]
    return any(inner.get("type") in _MODELS for part in choices for inner in _parts(part)) and any(
        getattr(model, "__pydantic_computed_fields__", None) for model in models
    )


@lru_cache(maxsize=256)
def is_strict(cls: type[BaseModel]) -> bool:
    """Whether a part of a class is strict: it then reads dates, enums and tuples from JSON, and not from its values."""
    parts = list(_parts(getattr(cls, "__pydantic_core_schema__", None)))
    return any(part.get("strict") for part in parts) and not has_array_fields(cls)


def validated(cls: type[ModelT], fields: Any) -> ModelT:
    """JSON values as an object of the class, by names or aliases. Raises ValidationError."""
    validator = cls.__pydantic_validator__
    if is_strict(cls):
        read: ModelT = validator.validate_json(write_json(fields), by_alias=True, by_name=True)
    else:
        read = validator.validate_python(fields, by_alias=True, by_name=True)
    return read


def _with_objects(annotation: Any, value: Any) -> Any:
    """`value` with an object in place of each mapping that a model of its annotation fits.

    That is the first model that has all keys of the mapping, computed ones too, and accepts it.
    """
    members = list(_members(annotation))
    if isinstance(value, dict):
        models = (member for member in members if isinstance(member, type) and issubclass(member, BaseModel))
        for model in models:
            fitting = _object_of(model, value)
            if fitting is not None:
                return fitting
        values = next((get_args(member)[1] for member in members if _is_mapping(member)), None)
        return {key: _with_objects(values, item) for key, item in value.items()}
    if isinstance(value, list):
        rows = (get_args(member) for member in members if not _is_mapping(member))
        parts = next(filter(None, ([part for part in row if part is not Ellipsis] for row in rows)), [None])
        return [_with_objects(parts[min(place, len(parts) - 1)], item) for place, item in enumerate(value)]
    return value


def _is_mapping(annotation: Any) -> bool:
    origin = get_origin(annotation)
    return isinstance(origin, type) and issubclass(origin, Mapping) and len(get_args(annotation)) == 2


def _members(annotation: Any) -> Iterator[Any]:
    """The types of which a value may be one."""
    annotation = getattr(annotation, "__value__", annotation)
    origin, parts = get_origin(annotation), get_args(annotation)
    if origin in (Union, UnionType, Annotated):
        for part in parts if origin is not Annotated else parts[:1]:
            yield from _members(part)
    else:
        yield annotation


def _object_of(model: type[BaseModel], fields: dict[str, Any]) -> BaseModel | None:
    aliases = {field.alias for field in model.model_fields.values()}
    if not fields.keys() <= model.model_fields.keys() | model.model_computed_fields.keys() | aliases:
        return None
    try:
        return read_message(model, fields)
    except UnreadableResponse:
        return None


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
    return validated(cls, fields)


def _as_written(fields: dict[str, Any], error: ValidationError, *, has_own_fields: bool) -> dict[str, Any] | None:
    """The fields with NaN for each null of a number, and without those that objects inside them may not have.

    None where something else is wrong. has_own_fields: whether further fields of the message itself are wrong, too: a
    model serializer may write some.
    """
    rows = error.errors(include_url=False, include_input=False, include_context=False)
    known = deepcopy(fields)
    try:
        for row in rows:
            *path, name = row["loc"]
            holder: Any = known
            for part in path:
                holder = holder[part]
            if row["type"] == "extra_forbidden" and (path or not has_own_fields):
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
