"""The frames of the wire: bytes to requests, and observations, states and errors to bytes.

An observation goes to bytes in one pass of pydantic's serializer; nothing is dumped to dictionaries on the way.
"""

import json
from dataclasses import dataclass, field
from typing import Any

import orjson
from pydantic import BaseModel, ValidationError
from pydantic_core import to_json

from openenv.core.env_server.types import Observation
from openenv.core.errors import InvalidJSON, InvalidMessage, RequestRefused, UnknownMessageType

_KEYS_OF_TYPE = {
    "reset": {"type", "data"},
    "step": {"type", "data"},
    "state": {"type"},
    "close": {"type"},
}
_BESIDE_THE_OBSERVATION = {"done", "reward"}


@dataclass(slots=True, frozen=True)
class Request:
    """One message of a client: its verb and the verb's data."""

    type: str
    data: dict[str, Any] = field(default_factory=dict)


def read_request(frame: str | bytes) -> Request:
    """The request in a frame. Raises InvalidJSON, UnknownMessageType or InvalidMessage; none of them ends a session."""
    message = _json_object(frame)
    kind = message.get("type", "")
    allowed = _KEYS_OF_TYPE.get(kind) if isinstance(kind, str) else None
    if allowed is None:
        raise UnknownMessageType(f"Unknown message type: {kind}")
    unknown = message.keys() - allowed
    if unknown:
        raise InvalidMessage("Invalid message", errors=[_row("extra_forbidden", key, message[key]) for key in unknown])
    data = message.get("data")
    if data is None:
        if kind == "step":
            raise InvalidMessage("Invalid message", errors=[_row("missing", "data", message)])
        data = {}
    if not isinstance(data, dict):
        raise InvalidMessage("Invalid message", errors=[_row("dict_type", "data", data)])
    return Request(kind, data)


def _json_object(frame: str | bytes) -> dict[str, Any]:
    try:
        message = orjson.loads(frame)
    except orjson.JSONDecodeError:
        message = _tolerant_json(frame)
    if not isinstance(message, dict):
        raise InvalidJSON(f"Invalid JSON: a message is an object, this is {type(message).__name__}")
    return message


def _tolerant_json(frame: str | bytes) -> Any:
    """The standard library also reads NaN and huge integers, as the published server does."""
    try:
        return json.loads(frame)
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise InvalidJSON(f"Invalid JSON: {error}") from None
    except RecursionError:
        raise InvalidJSON("Invalid JSON: nested too deeply") from None


_ROW_TEXT = {
    "missing": "Field required",
    "extra_forbidden": "Extra inputs are not permitted",
    "dict_type": "Input should be a valid dictionary",
}


def _row(kind: str, name: str, value: Any) -> dict[str, Any]:
    """An error row in pydantic's shape, for what is checked before a model sees it."""
    return {"type": kind, "loc": [name], "msg": _ROW_TEXT[kind], "input": value}


def refuse_unknown(given: set[str], allowed: str, verb: str) -> InvalidMessage:
    """The error for keywords that an environment's verb does not take."""
    rows = [
        {"type": "extra_forbidden", "loc": [key], "msg": f"{verb}() takes {allowed}", "input": key}
        for key in sorted(given)
    ]
    return InvalidMessage("Invalid message", errors=rows)


def invalid_message(error: ValidationError) -> InvalidMessage:
    """A pydantic error as the wire's validation error, its rows safe to serialise."""
    return InvalidMessage("Invalid message", errors=json.loads(error.json()))


def _serialisable(value: Any) -> Any:
    """Arrays, tensors and their scalars as lists and numbers: what pydantic does not know itself."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} cannot be sent as JSON: give the field a type that pydantic can serialise")


def _model_json(model: BaseModel, exclude: set[str] | None = None) -> bytes:
    return type(model).__pydantic_serializer__.to_json(model, exclude=exclude, fallback=_serialisable)


def observation_data(observation: Observation, *, null_metadata: bool = False) -> bytes:
    """`{"observation": ..., "reward": ..., "done": ..., "metadata": ...}`; metadata is left out when there is none,
    or null over HTTP."""
    parts = [
        b'{"observation":',
        _model_json(observation, _BESIDE_THE_OBSERVATION),
        b',"reward":',
        to_json(observation.reward, inf_nan_mode="null", fallback=_serialisable),
        b',"done":true' if observation.done else b',"done":false',
    ]
    if observation.metadata:
        parts += [b',"metadata":', to_json(observation.metadata, inf_nan_mode="null", fallback=_serialisable)]
    elif null_metadata:
        parts.append(b',"metadata":null')
    parts.append(b"}")
    return b"".join(parts)


def observation_frame(observation: Observation) -> bytes:
    """The answer to a reset or a step."""
    return b'{"type":"observation","data":' + observation_data(observation) + b"}"


def state_frame(state: BaseModel) -> bytes:
    """The answer to a state request."""
    return b'{"type":"state","data":' + state_data(state) + b"}"


def state_data(state: BaseModel) -> bytes:
    """A state as a JSON object."""
    return _model_json(state)


def error_data(error: RequestRefused) -> dict[str, Any]:
    """What an error frame says."""
    return {"message": error.message, "code": error.code, **error.details}


def error_frame(error: RequestRefused) -> bytes:
    """The answer to a request that was refused."""
    return orjson.dumps({"type": "error", "data": error_data(error)}, default=repr)
