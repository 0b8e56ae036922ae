"""The frames of the wire: bytes to requests, and states and errors to bytes."""

import json
from types import NoneType
from typing import Any, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from pydantic.version import version_short

from openenv.core.arrays import BinaryFrame, unpacked
from openenv.core.env_server.observation_json import serialisable
from openenv.core.errors import InvalidJSON, InvalidMessage, MessageTooBig, RequestRefused, UnknownMessageType
from openenv.core.json_text import read_json

ModelT = TypeVar("ModelT", bound=BaseModel)

_PUBLISHED = {
    "reset": {"type", "data"},
    "step": {"type", "data"},
    "state": {"type"},
    "mcp": {"type", "data"},
    "close": {"type"},
}
_EXTENDED = {
    "reset": {"type", "data", "id", "timeout_s", "traceparent"},
    "step": {"type", "data", "id", "timeout_s", "traceparent"},
    "state": {"type", "id", "traceparent"},
    "mcp": {"type", "data", "id", "traceparent"},
    "close": {"type", "id"},
    "save": {"type", "id"},
    "restore": {"type", "data", "id"},
    "fork": {"type", "data", "id"},
}
_USUAL_KEYS = 3
"""type, data, id"""
_EXACT = frozenset({bool, int, str, NoneType})
"""What orjson reads as it stands there: an integer that it rounds becomes a float."""
_new = tuple.__new__
_LONGEST_TIMEOUT_S = 1e9
_LONGEST_ID = 255
_DEEPEST_REPEATED = 32
_WANT_DATA = {"step", "mcp", "restore", "fork"}


class Request(NamedTuple):
    """One message of a client: its verb and the verb's data; in the extended dialect its id and time limit too."""

    type: str
    data: dict[str, Any]
    id: str | None = None
    timeout_s: float | None = None
    traceparent: str | None = None


def read_request(frame: str | bytes, *, extended: bool = False) -> Request:
    """The request in a frame. Raises InvalidJSON, UnknownMessageType or InvalidMessage; none of them ends a session."""
    try:
        message: Any = unpacked(frame) if isinstance(frame, BinaryFrame) else read_json(frame)
    except ValueError as error:  # also a number of thousands of digits, and bytes that are no text
        raise InvalidJSON(f"Invalid JSON: {error}") from None
    if not isinstance(message, dict):
        raise InvalidJSON(f"Invalid JSON: a message is an object, this is {type(message).__name__}")
    kind = message.get("type", "")
    allowed = (_EXTENDED if extended else _PUBLISHED).get(kind) if isinstance(kind, str) else None
    if allowed is None:
        raise UnknownMessageType(f"Unknown message type: {kind}")
    if not allowed.issuperset(message):
        rows = [_row("extra_forbidden", key, message[key]) for key in message.keys() - allowed]
        raise InvalidMessage("Invalid message", errors=rows)
    data = message.get("data")
    if data is None:
        if kind in _WANT_DATA:
            raise InvalidMessage("Invalid message", errors=[_row("missing", "data", message)])
        data = {}
    if not isinstance(data, dict):
        raise InvalidMessage("Invalid message", errors=[_row("dict_type", "data", data)])
    if not extended:
        return Request(kind, data)
    request_id = message.get("id")
    if type(request_id) is not str or len(request_id) > _LONGEST_ID:
        request_id = _short_text(message, "id")
    if "timeout_s" in message or "traceparent" in message:
        return Request(kind, data, request_id, _timeout(message), _short_text(message, "traceparent"))
    return Request(kind, data, request_id)


def read_usual_request(frame: bytes) -> Request | None:
    """A reset or step in the extended dialect as nearly all are; None: the frame is for `read_request`."""
    try:
        message = orjson.loads(frame)
        if type(message) is not dict or len(message) != _USUAL_KEYS:
            return None
        kind, data, request_id = message["type"], message["data"], message["id"]
    except (orjson.JSONDecodeError, KeyError):
        return None
    if (
        not (kind == "step" or kind == "reset")
        or type(data) is not dict
        or type(request_id) is not str
        or len(request_id) > _LONGEST_ID
    ):
        return None
    for value in data.values():
        if type(value) not in _EXACT:
            return None
    return _new(Request, (kind, data, request_id, None, None))


def refuse_too_big(frame: str | bytes, max_bytes: int) -> None:
    """Raises MessageTooBig for a message above the server's limit."""
    size = len(frame.encode() if isinstance(frame, str) else frame)
    if size > max_bytes:
        raise MessageTooBig(f"a message of {size} bytes is above this server's limit of {max_bytes}")


def _short_text(message: dict[str, Any], key: str) -> str | None:
    text = message.get(key)
    if text is None or (isinstance(text, str) and len(text) <= _LONGEST_ID):
        return text
    raise InvalidMessage("Invalid message", errors=[_row("string_type", key, text)])


def _timeout(message: dict[str, Any]) -> float | None:
    timeout_s = message.get("timeout_s")
    if timeout_s is None:
        return None
    if isinstance(timeout_s, int | float) and 0 < timeout_s < _LONGEST_TIMEOUT_S:
        return float(timeout_s)
    raise InvalidMessage("Invalid message", errors=[_row("greater_than", "timeout_s", timeout_s)])


_ROW_TEXT = {
    "missing": "Field required",
    "extra_forbidden": "Extra inputs are not permitted",
    "dict_type": "Input should be a valid dictionary",
    "string_type": "Input should be a valid string of at most 255 characters",
    "greater_than": "Input should be a number of seconds greater than 0",
}


def _row(kind: str, name: str, value: Any) -> dict[str, Any]:
    """An error row in pydantic's shape, for what is checked before a model sees it."""
    url = f"https://errors.pydantic.dev/{version_short()}/v/{kind}"
    return {"type": kind, "loc": [name], "msg": _ROW_TEXT[kind], "input": value, "url": url}


def refuse_unknown(given: set[str], allowed: str, verb: str) -> InvalidMessage:
    """The error for keywords that an environment's verb does not take."""
    rows = [
        {"type": "extra_forbidden", "loc": [key], "msg": f"{verb}() takes {allowed}", "input": key}
        for key in sorted(given)
    ]
    return InvalidMessage("Invalid message", errors=rows)


def invalid_message(error: ValidationError) -> InvalidMessage:
    """A pydantic error as the wire's validation error, its rows safe to serialise."""
    try:
        rows = json.loads(error.json())
    except ValueError:  # it repeats half a surrogate pair, which pydantic cannot write
        rows = error.errors(include_context=False)
    return InvalidMessage("Invalid message", errors=rows)


def checked(model: type[ModelT], data: dict[str, Any]) -> ModelT:
    """`data` as that model. Raises InvalidMessage that names each wrong field."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise invalid_message(error) from None


def state_data(state: BaseModel) -> bytes:
    """A state as a JSON object."""
    data: bytes = type(state).__pydantic_serializer__.to_json(state, fallback=serialisable)
    return data


def answer_frame(kind: str, data: bytes) -> bytes:
    """An answer in the published dialect; kind: observation or state."""
    return b'{"type":"%b","data":%b}' % (kind.encode(), data)


def extended_answer_frame(kind: str, data: bytes, request_id: str | None, *, truncated: bool) -> bytes:
    """An answer in the extended dialect. truncated: whether it ends an episode that was cut short."""
    try:
        said_id = orjson.dumps(request_id)
    except TypeError:  # half a surrogate pair
        said_id = error_json(request_id)
    head = _OBSERVATION if kind == "observation" else b'{"type":"%b","id":' % kind.encode()
    return b"".join((head, said_id, _TRUNCATED if truncated else _VALID, data, b"}"))


_OBSERVATION = b'{"type":"observation","id":'
_VALID, _TRUNCATED = b',"validity":"valid","data":', b',"validity":"truncated","data":'


def error_data(error: RequestRefused) -> dict[str, Any]:
    """What an error frame says."""
    return {"message": error.message, "code": error.code, **error.details}


def error_json(body: Any) -> bytes:
    """JSON of an error, or of an id, whatever a client sent that it repeats: also half a surrogate pair, a huge
    integer, or a nest of a thousand arrays, whose depths are left out."""
    try:
        return orjson.dumps(body, default=_listed)
    except TypeError:
        return json.dumps(_shallow(body, _DEEPEST_REPEATED), default=_listed).encode()


def _listed(value: Any) -> Any:
    return value.tolist() if hasattr(value, "tolist") else repr(value)


def _shallow(value: Any, depth: int) -> Any:
    """`value` with an ellipsis in place of what lies deeper than that."""
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return "..."
    if isinstance(value, list):
        return [_shallow(item, depth - 1) for item in value]
    return {key: _shallow(item, depth - 1) for key, item in value.items()}


def error_frame(error: RequestRefused) -> bytes:
    """The answer to a request that was refused, in the published dialect."""
    return error_json({"type": "error", "data": error_data(error)})


def extended_error_frame(error: RequestRefused, request_id: str | None) -> bytes:
    """The same in the extended dialect."""
    frame = {"type": "error", "id": request_id, "validity": error.validity, "data": error_data(error)}
    return error_json(frame)
