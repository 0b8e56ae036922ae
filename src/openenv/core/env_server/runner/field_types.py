"""Which types the fields of a message may have, and what to declare instead of the others."""

import logging
from collections.abc import AsyncIterable, Generator, Iterable, Iterator, Mapping
from random import Random
from typing import Any, Literal, get_args, get_origin

from annotated_types import BaseMetadata
from pydantic import BaseModel, Json, PlainSerializer, SecretBytes, SecretStr, WrapSerializer, create_model
from pydantic.errors import PydanticInvalidForJsonSchema
from pydantic.fields import FieldInfo
from pydantic_core import ValidationError

from openenv.core.env_server.types import Action
from openenv.core.errors import UnreadableResponse
from openenv.core.wire.arrays import is_array_field
from openenv.core.wire.boxes import Box
from openenv.core.wire.json_codec import to_plain
from openenv.core.wire.message_fields import read_message, validated
from openenv.schema.message_schema import message_schema
from openenv.schema.samples import SchemaSampler

log = logging.getLogger(__name__)

_NO_KEYS = (tuple, list, set, frozenset, BaseModel)
"""Types that no key of a JSON object has; pydantic writes some of them as a text, and reads none of them back."""

_READ_ONCE = (Iterable, Iterator, Generator, AsyncIterable)
_SAMPLES = 4
"""Values of a message with serializers that are written and read to try them."""


def check_fields(message: type[BaseModel]) -> None:
    """Check the types of a message's fields, and warn of those that clients see without limits.

    Raises TypeError, with the field and what to declare, for a type that a client cannot read as the server has it.
    """
    is_sent_by_clients = issubclass(message, Action)
    for owner, name, field in _fields_of(message, set()):
        problem = _numpy_problem(field) or _wire_problem(field, is_sent_by_clients=is_sent_by_clients)
        if problem:
            raise TypeError(f"{owner.__name__}.{name} {problem}")
    if _has_serializers(message):
        _refuse_unreadable(message, is_sent_by_clients=is_sent_by_clients)
    _warn_without_schema(message)
    if is_sent_by_clients:
        _warn_of_any_array(message)


def _numpy_problem(field: FieldInfo) -> str:
    """What is wrong with a field of a type of numpy, which no schema describes, or an array with other limits."""
    found = set(_numpy_types(field.annotation))
    if found and "ndarray" not in found:
        return f"is declared as numpy's {min(found)}, which no schema describes: write float, int or bool"
    if found:
        return (
            "is declared as a numpy array, which no schema describes: declare it as Array "
            "(from openenv.core.wire.arrays import Array), which holds one and travels as raw bytes. "
            "Annotated[Array, Box(low, high, shape)] (from openenv.core.wire.boxes import Box) also has its limits"
        )
    limits = [rule for rule in field.metadata if isinstance(rule, BaseMetadata)] if is_array_field(field) else []
    if limits:
        return (
            f"is an Array with {limits[0]}, which is for one number or text: write "
            "Annotated[Array, Box(low, high, shape)] (from openenv.core.wire.boxes import Box)"
        )
    return ""


def _wire_problem(field: FieldInfo, *, is_sent_by_clients: bool) -> str:
    """What is wrong with a field whose values are other ones once they were written as JSON and read again."""
    if field.exclude and field.is_required():
        return "is left out of what is written (exclude=True) and has no default: give it one"
    for part in [*_parts_of(field.annotation), *field.metadata]:
        if part in _READ_ONCE or get_origin(part) in _READ_ONCE:
            return (
                "is declared as an Iterable, whose items are checked when they are read, and are gone then: declare "
                "list[...] or Sequence[...]"
            )
        if part is BaseModel:
            return "is declared as BaseModel, which has no fields: declare a model of your own, or dict[str, Any]"
        if part in (SecretStr, SecretBytes):
            return f"is declared as {part.__name__}, which is written as asterisks: declare str"
        if Json in (part, type(part)) and not is_sent_by_clients:
            return "is declared as Json, which is read from a text but written as its value: declare the type inside"
        members = [value for value in _literals(part) if value is not None and not isinstance(value, str | int)]
        if members:
            return (
                f"is declared as Literal[{members[0]}], which no value of JSON equals: write texts or numbers there, "
                "or members of an enum that derives from str or int, such as class Colour(str, Enum)"
            )
        key = _key_of(part)
        if key is not None:
            return (
                f"is declared with keys of {key.__name__}, which no object of JSON has: declare keys of str or int, or "
                "a list of pairs, such as list[tuple[KEY, VALUE]]"
            )
    return ""


def _has_serializers(message: type[BaseModel]) -> bool:
    """Whether an author's functions write a part of the message. A class with a reader of its own is its author's."""
    if message.model_validate.__func__ is not BaseModel.model_validate.__func__:  # type: ignore[attr-defined]
        return False
    for owner, _, field in _fields_of(message, set()):
        written = owner.__pydantic_decorators__
        parts = [*field.metadata, *_parts_of(field.annotation)]
        if written.field_serializers or written.model_serializers:
            return True
        if any(isinstance(part, PlainSerializer | WrapSerializer) for part in parts):
            return True
    return False


def _refuse_unreadable(message: type[BaseModel], *, is_sent_by_clients: bool) -> None:
    """Raise TypeError, with the field, where the class does not read what its serializers write."""
    for seed in range(_SAMPLES):
        try:
            sample = SchemaSampler(message_schema(message), Random(seed), simplest=not seed, optional=True).sample()
            value = message.model_validate(sample)
            written = value.model_dump(mode="json", round_trip=is_sent_by_clients, fallback=to_plain, warnings=False)
        except Exception:  # noqa: BLE001  an author's functions may take other values only
            continue
        try:
            (validated if is_sent_by_clients else read_message)(message, written)
        except (ValidationError, UnreadableResponse) as error:
            invalid = error if isinstance(error, ValidationError) else error.__cause__
            row: Any = invalid.errors()[0] if isinstance(invalid, ValidationError) else {"msg": str(error)}
            place = ".".join(map(str, (message.__name__, *row.get("loc", ()))))
            raise TypeError(
                f"{place}: a serializer writes {row.get('input')!r:.80}, which the class does not read: {row['msg']}. "
                "Write what it reads, or read it in a validator of mode='before'"
            ) from error


def _literals(annotation: Any) -> tuple[Any, ...]:
    return get_args(annotation) if get_origin(annotation) is Literal else ()


def _key_of(annotation: Any) -> type | None:
    """The type of a mapping's keys where it is none of JSON."""
    origin = get_origin(annotation)
    if not (isinstance(origin, type) and issubclass(origin, Mapping) and get_args(annotation)):
        return None
    for key in _parts_of(get_args(annotation)[0]):
        named = get_origin(key) or key
        if isinstance(named, type) and issubclass(named, _NO_KEYS):
            return named
    return None


def _parts_of(annotation: Any) -> Iterator[Any]:
    """An annotation, and all that it is made of."""
    yield annotation
    if get_origin(annotation) is not Literal:
        for part in get_args(getattr(annotation, "__value__", annotation)):
            yield from _parts_of(part)


def _fields_of(message: type[BaseModel], seen: set[Any]) -> Iterator[tuple[type[BaseModel], str, FieldInfo]]:
    """The fields of a message and of the models inside, with their classes."""
    seen.add(message)
    for name, field in message.model_fields.items():
        yield message, name, field
        for part in _parts_of(field.annotation):
            if isinstance(part, type) and issubclass(part, BaseModel) and part not in seen:
                yield from _fields_of(part, seen)


def _numpy_types(annotation: Any) -> Iterator[str]:
    """The names of numpy's types in an annotation."""
    for part in _parts_of(annotation):
        named = get_origin(part) or part
        if isinstance(named, type) and named.__module__ == "numpy":
            yield named.__name__


def _warn_without_schema(message: type[BaseModel]) -> None:
    """Warn of fields that no schema describes: they may hold any class, and only the author's own client reads it."""
    mode: Literal["validation", "serialization"] = "validation" if issubclass(message, Action) else "serialization"
    try:
        message.model_json_schema(mode=mode)
    except PydanticInvalidForJsonSchema as error:
        log.warning(
            "%s is of a type that no schema describes, so `openenv show`, `eval` and `train` know nothing of its "
            "values: %s. Declare numbers, texts, lists, objects, models, or an Array.",
            _place_without_schema(message, mode), str(error).splitlines()[0],
        )  # fmt: skip


def _place_without_schema(message: type[BaseModel], mode: Literal["validation", "serialization"]) -> str:
    """The innermost field without a schema, such as `Move.target`."""
    place = message.__name__
    for owner, name, field in _fields_of(message, set()):
        alone = create_model(owner.__name__, __config__=owner.model_config, **{name: (field.annotation, field)})  # type: ignore[call-overload]
        try:
            alone.model_json_schema(mode=mode)
        except PydanticInvalidForJsonSchema:
            place = f"{owner.__name__}.{name}"
    return place


def _warn_of_any_array(action: type[BaseModel]) -> None:
    """Warn of an array of which neither clients nor random play know the shape."""
    for name, field in action.model_fields.items():
        if is_array_field(field) and not any(isinstance(rule, Box) for rule in field.metadata):
            log.warning(
                "%s.%s is an Array of any shape: random play sends one number. Write Annotated[Array, Box(low, high, "
                "shape)] (from openenv.core.wire.boxes import Box) to declare which arrays there are.",
                action.__name__, name,
            )  # fmt: skip
