"""Encodes observations as JSON in one pass, without intermediate dictionaries.

orjson encodes classes whose fields are plain JSON. pydantic's serializer encodes all others, in three times as long.
"""

import functools
from collections.abc import Iterator
from typing import Any

import orjson
from pydantic_core import to_json

from openenv.core.env_server.types import Observation
from openenv.core.wire.arrays import WITHOUT_ARRAYS_IS_PLAIN_JSON, Buffers, looks_like_arrays
from openenv.core.wire.json_codec import to_plain, write_json
from openenv.core.wire.message_fields import has_models

_BESIDE_THE_OBSERVATION = {"done", "reward"}
_ENCODED_APART = {"done", "reward", "metadata"}
_PLAIN_KINDS = frozenset(
    {
        "bool", "default", "dict", "float", "function-before", "int", "list", "literal", "none", "nullable", "str",
        "tuple", "union",
    }
)  # fmt: skip
"""Kinds of pydantic's core schema whose values, once they are valid, orjson writes as pydantic does."""
_STRICT = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def packed_observation_data(observation: Observation) -> tuple[bytes, list[bytes]]:
    """`observation_data` with the arrays of its fields left out of the JSON, and those arrays."""
    buffers = Buffers()
    data = observation_data(observation, buffers)
    if looks_like_arrays(data, len(buffers.parts)):  # data of that form: nothing is left out, and nothing misread
        return observation_data(observation), []
    return data, buffers.parts


def observation_data(observation: Observation, buffers: Buffers | None = None) -> bytes:
    """The JSON of an observation: `{"observation": ..., "reward": ..., "done": ..., "metadata": ...}`.

    Metadata is left out when it is empty. buffers: collects the arrays of the observation's fields; None: they become
    nested lists.
    """
    fields = observation.__dict__
    if fields.keys() != _plain_fields(type(observation)):  # a field is missing, or a property is cached
        return _data_of_any(observation, buffers)
    fields = fields.copy()
    try:
        data = {"observation": fields, "reward": fields.pop("reward"), "done": bool(fields.pop("done"))}
        metadata = fields["metadata"]
        if metadata:
            is_plain = observation.METADATA_IS_PLAIN_JSON
            encoded = orjson.dumps(metadata, None, _STRICT) if is_plain else _metadata(metadata)
            data["metadata"] = fields["metadata"] = orjson.Fragment(encoded)
        return orjson.dumps(data, None, _STRICT)
    except TypeError:  # a value that was not validated, or an integer beyond 64 bits
        return _data_of_any(observation, buffers)


def _metadata(metadata: dict[str, Any]) -> bytes:
    """Metadata may hold any type, which pydantic encodes by its own rules; orjson would write the value of an Enum."""
    return to_json(metadata, inf_nan_mode="null", fallback=to_plain)


def _dumped(observation: Observation, *, exclude: set[str], **options: Any) -> bytes:
    """The fields as the class's own `model_dump` gives them."""
    return to_json(observation.model_dump(exclude=exclude), inf_nan_mode="null", fallback=to_plain)


def _data_of_any(observation: Observation, buffers: Buffers | None) -> bytes:
    cls = type(observation)
    has_own_dump = cls.model_dump is not Observation.model_dump
    to_json_of = cls.__pydantic_serializer__.to_json
    to_fields = (
        functools.partial(_dumped, observation)
        if has_own_dump
        else functools.partial(to_json_of, observation, serialize_as_any=has_models(cls))
    )
    reward = observation.reward
    reward_json = b"null" if reward is None else write_json(reward, default=to_plain)
    done = b"true" if observation.done else b"false"
    if not observation.metadata:
        fields = to_fields(exclude=_BESIDE_THE_OBSERVATION, context=buffers, fallback=to_plain)
        return b'{"observation":%b,"reward":%b,"done":%b}' % (fields, reward_json, done)
    fields = to_fields(exclude=_ENCODED_APART, context=buffers, fallback=to_plain)
    metadata = _metadata(observation.metadata)
    comma = b"," if len(fields) > 2 else b""
    return b'{"observation":{"metadata":%b%b%b,"reward":%b,"done":%b,"metadata":%b}' % (
        metadata, comma, fields[1:], reward_json, done, metadata,
    )  # fmt: skip


@functools.lru_cache(maxsize=256)
def _plain_fields(cls: type[Observation]) -> frozenset[str]:
    """The fields of a class where all of them are written as they are, under their own names; else none."""
    schema: Any = cls.__pydantic_core_schema__
    is_plain = (
        schema["type"] == "model"
        and schema["schema"]["type"] == "model-fields"
        and not schema["schema"].get("computed_fields")
        and "serialization" not in schema
        and schema["config"].get("extra_fields_behavior") != "allow"
        and cls.model_dump is Observation.model_dump
        and not any(key.startswith("ser_") or key == "serialize_by_alias" for key in schema["config"])
        and all(_is_plain_field(field) for name, field in schema["schema"]["fields"].items() if name != "metadata")
    )
    return frozenset(cls.model_fields if is_plain else ())


def _is_plain_field(field: dict[str, Any]) -> bool:
    return not any(key.startswith("serialization") for key in field) and all(map(_is_plain, _schemas(field["schema"])))


def _is_plain(schema: dict[str, Any]) -> bool:
    if schema.get("metadata", {}).get(WITHOUT_ARRAYS_IS_PLAIN_JSON):
        return True  # orjson refuses an array, and pydantic's serializer then writes it
    return schema["type"] in _PLAIN_KINDS and "serialization" not in schema


def _schemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema of pydantic-core and those inside it."""
    yield schema
    for key in ("schema", "keys_schema", "values_schema", "items_schema", "choices"):
        inner = schema.get(key, ())
        for one in inner if isinstance(inner, list | tuple) else [inner]:
            yield from _schemas(one[0] if isinstance(one, tuple) else one)
