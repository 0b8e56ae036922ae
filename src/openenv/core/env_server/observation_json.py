"""Observations to bytes, in one pass and without dictionaries of dictionaries on the way.

Classes whose fields are plain JSON go through orjson, all others through pydantic's serializer, which knows more and
takes three times as long.
"""

import functools
from collections.abc import Iterator
from typing import Any

import orjson
from pydantic_core import to_json

from openenv.core.arrays import Buffers
from openenv.core.env_server.types import Observation
from openenv.core.json_text import write_json

_BESIDE_THE_OBSERVATION = {"done", "reward"}
_WRITTEN_APART = {"done", "reward", "metadata"}
_WRITTEN_ALIKE = frozenset(
    {"bool", "default", "dict", "float", "int", "list", "literal", "none", "nullable", "str", "tuple", "union"}
)
"""Kinds of pydantic's core schema whose values, once they are valid, orjson writes as pydantic does."""
_ONLY_JSON = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def serialisable(value: Any) -> Any:
    """Arrays, tensors and their scalars as lists and numbers: what pydantic does not know itself."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON: give the field a type that pydantic can serialise")


def packed_observation_data(observation: Observation) -> tuple[bytes, list[bytes]]:
    """`observation_data` with the arrays of its fields left out of the JSON, and those arrays."""
    buffers = Buffers()
    return observation_data(observation, buffers), buffers.parts


def observation_data(observation: Observation, buffers: Buffers | None = None) -> bytes:
    """`{"observation": ..., "reward": ..., "done": ..., "metadata": ...}`; metadata is left out when there is none.

    buffers: takes the arrays of the observation's fields, which else become nested lists.
    """
    fields = observation.__dict__
    if fields.keys() != _plain_fields(type(observation)):  # it lacks some, or something is cached in it
        return _data(observation, buffers)
    fields = fields.copy()
    try:
        said = {"observation": fields, "reward": fields.pop("reward"), "done": bool(fields.pop("done"))}
        metadata = fields["metadata"]
        if metadata:
            is_json = observation.METADATA_IS_JSON
            written = orjson.dumps(metadata, None, _ONLY_JSON) if is_json else _metadata(metadata)
            said["metadata"] = fields["metadata"] = orjson.Fragment(written)
        return orjson.dumps(said, None, _ONLY_JSON)
    except TypeError:  # a value that nobody has checked, or an integer of more than 64 bits
        return _data(observation, buffers)


def _metadata(metadata: dict[str, Any]) -> bytes:
    """Anything may stand in it, which pydantic knows best; orjson would ask whatever Enum there is for its value."""
    return to_json(metadata, inf_nan_mode="null", fallback=serialisable)


def _data(observation: Observation, buffers: Buffers | None) -> bytes:
    to_fields = type(observation).__pydantic_serializer__.to_json
    reward = observation.reward
    said = b"null" if reward is None else write_json(reward, default=serialisable)
    done = b"true" if observation.done else b"false"
    if not observation.metadata:
        fields = to_fields(observation, exclude=_BESIDE_THE_OBSERVATION, context=buffers, fallback=serialisable)
        return b'{"observation":%b,"reward":%b,"done":%b}' % (fields, said, done)
    fields = to_fields(observation, exclude=_WRITTEN_APART, context=buffers, fallback=serialisable)
    metadata = _metadata(observation.metadata)
    comma = b"," if len(fields) > 2 else b""
    return b'{"observation":{"metadata":%b%b%b,"reward":%b,"done":%b,"metadata":%b}' % (
        metadata, comma, fields[1:], said, done, metadata,
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
        and not any(key.startswith("ser_") or key == "serialize_by_alias" for key in schema["config"])
        and all(_is_plain_field(field) for name, field in schema["schema"]["fields"].items() if name != "metadata")
    )
    return frozenset(cls.model_fields if is_plain else ())


def _is_plain_field(field: dict[str, Any]) -> bool:
    return not any(key.startswith("serialization") for key in field) and all(map(_is_plain, _schemas(field["schema"])))


def _is_plain(schema: dict[str, Any]) -> bool:
    return schema["type"] in _WRITTEN_ALIKE and "serialization" not in schema


def _schemas(schema: dict[str, Any]) -> Iterator[dict[str, Any]]:
    """A schema of pydantic-core and those inside it."""
    yield schema
    for key in ("schema", "keys_schema", "values_schema", "items_schema", "choices"):
        inner = schema.get(key, ())
        for one in inner if isinstance(inner, list | tuple) else [inner]:
            yield from _schemas(one[0] if isinstance(one, tuple) else one)
