"""The server's side of the wire: frames to requests, and responses and errors to frames.

In the published dialect a frame has a type and its data. In the extended dialect, which client and server agree on by
subprotocol, a frame may also have an id, a time limit and a trace context.
"""

import heapq
import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, TypeVar

import orjson
from pydantic import BaseModel, ValidationError
from pydantic.version import version_short

from openenv.core.errors import InvalidJSON, InvalidMessage, MessageTooBig, RequestRefused, UnknownMessageType
from openenv.core.wire.arrays import BinaryFrame, read_frame, split
from openenv.core.wire.json_codec import to_plain, to_plain_or_text
from openenv.core.wire.message_fields import has_models, unwritable
from openenv.formats.json_text import json_text

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
_MAX_TIMEOUT_S = 1e9
_MAX_ID_LENGTH = 255
_MAX_REPEATED_DEPTH = 32
_MAX_REPEATED_CHARACTERS = 200
_MAX_ROWS = 50
_MAX_COUNTED = 1000
"""Wrong fields of which pydantic is asked for all rows."""
_BY_CUTTING = frozenset({"missing", "too_short"})
"""Kinds of errors that the beginning of a message may have where the whole has not."""
MAX_KEPT_LENGTH = 4096
MAX_CONTAINERS = 500_000
MAX_VALUES = 5_000_000
"""Of one message: lists and objects, and values and keys. A parser holds up all sessions, also from another thread: a
server answers after 0.3 s at most, and after ten seconds or more for 100 MB of empty lists."""
_ENCODER = json.JSONEncoder(default=to_plain_or_text)
_REQUIRES_DATA = {"step", "mcp", "restore", "fork"}
NO_KEYWORDS: Mapping[str, Any] = MappingProxyType({})


class SessionRequest(NamedTuple):
    """One request to a session, as it came in a frame or over HTTP."""

    verb: str
    data: dict[str, Any]
    id: str | None = None
    timeout_s: float | None = None
    """The most seconds that the verb may take, where that is less than the server's own limit."""
    traceparent: str | None = None
    """The client's span, as W3C Trace Context writes it."""
    keywords: Mapping[str, Any] = NO_KEYWORDS
    """Further keywords of the environment's `step`, which only HTTP has a place for."""
    body: bytes | str | int | None = None
    """Distinguishes a repetition from another request with the same id: its frame, or the hash of a large one."""


def read_request(frame: str | bytes, *, extended: bool = False) -> SessionRequest:
    """Parse one frame. Raises InvalidJSON, UnknownMessageType or InvalidMessage; the session goes on after each."""
    try:
        message: Any = read_frame(frame)
    except ValueError as error:  # also a number of thousands of digits, and bytes that are no UTF-8
        raise InvalidJSON(f"Invalid JSON: {error}") from None
    if type(message) is not dict:
        raise InvalidJSON(f"Invalid JSON: a message is an object, this is {type(message).__name__}")
    verb = message.get("type", "")
    allowed = (_EXTENDED if extended else _PUBLISHED).get(verb) if type(verb) is str else None
    if allowed is None:
        raise UnknownMessageType(f"Unknown message type: {_cut(verb)}")
    if not allowed.issuperset(message):
        unknown = message.keys() - allowed
        raise refused_fields((_row("extra_forbidden", key, message[key]) for key in unknown), len(unknown))
    data = message.get("data")
    if data is None:
        if verb in _REQUIRES_DATA:
            raise refused_fields([_row("missing", "data", message)])
        data = {}
    elif type(data) is not dict:
        raise refused_fields([_row("dict_type", "data", data)])
    if not extended:
        return SessionRequest(verb, data)
    request_id = message.get("id")
    if type(request_id) is not str or len(request_id) > _MAX_ID_LENGTH:
        request_id = _short_text(message, "id")
    # bytes of a large frame would be kept for long, and arrays are no JSON: the hash takes a tenth of parsing them
    body = frame if len(frame) <= MAX_KEPT_LENGTH and type(frame) is not BinaryFrame else hash(frame)
    if "timeout_s" in message or "traceparent" in message:
        traceparent = _short_text(message, "traceparent")
        return SessionRequest(verb, data, request_id, _timeout(message), traceparent, NO_KEYWORDS, body)
    # as SessionRequest(...), whose __new__ is a function of Python's
    return tuple.__new__(SessionRequest, (verb, data, request_id, None, None, NO_KEYWORDS, body))


def refuse_too_big(frame: str | bytes, max_bytes: int) -> None:
    """Raises MessageTooBig for a message above the server's limit, or with too many values to parse. It is not parsed.

    Raises InvalidJSON for a binary frame that is cut short.
    """
    if len(frame) < min(MAX_CONTAINERS, max_bytes // 4):  # no character takes more than four bytes
        return
    size = len(frame.encode() if isinstance(frame, str) else frame)
    if size > max_bytes:
        raise MessageTooBig(f"a message of {size} bytes is above this server's limit of {max_bytes}")
    try:
        text = split(frame)[0] if type(frame) is BinaryFrame else frame
    except ValueError as error:
        raise InvalidJSON(f"Invalid JSON: {error}") from None
    data = text.encode() if isinstance(text, str) else bytes(text)
    if not any(count > limit for count, limit, _ in _counts(data)):
        return
    for count, limit, what in _counts(_without_texts(data)):
        if count > limit:
            raise MessageTooBig(
                f"a message with {count} {what} is above this server's limit of {limit}: send less in one message, and "
                "arrays in binary frames"
            )


def _without_texts(data: bytes) -> bytes:
    """JSON without its texts, whose marks are no values."""
    unescaped = data.replace(rb"\\", b"").replace(rb"\"", b"")
    return b"".join(unescaped.split(b'"')[::2])


def _counts(data: bytes) -> Iterator[tuple[int, int, str]]:
    """How many marks of each kind there are, how many there may be, and what they begin or end."""
    for marks, limit, what in ((b"[{", MAX_CONTAINERS, "lists and objects"), (b",:", MAX_VALUES, "values")):
        yield sum(data.count(mark) for mark in marks), limit, what


def _short_text(message: dict[str, Any], key: str) -> str | None:
    text = message.get(key)
    if text is None or (isinstance(text, str) and len(text) <= _MAX_ID_LENGTH):
        return text
    raise refused_fields([_row("string_type", key, text)])


def _timeout(message: dict[str, Any]) -> float | None:
    timeout_s = message.get("timeout_s")
    if timeout_s is None:
        return None
    if isinstance(timeout_s, int | float) and 0 < timeout_s < _MAX_TIMEOUT_S:
        return float(timeout_s)
    raise refused_fields([_row("greater_than", "timeout_s", timeout_s)])


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


def unknown_keywords(given: set[str], allowed: str, verb: str) -> InvalidMessage:
    """The error for keywords that an environment's method does not take."""
    rows = (
        {"type": "extra_forbidden", "loc": [key], "msg": f"{verb}() takes {allowed}", "input": key}
        for key in heapq.nsmallest(_MAX_ROWS, given)
    )
    return refused_fields(rows, len(given))


def invalid_message(error: ValidationError, validate: Callable[[Any], Any], data: Any) -> InvalidMessage:
    """A pydantic error as the wire's validation error. validate: raised it for `data`.

    Of very many wrong fields the rows are those of the beginning of the data. pydantic makes all rows at once or none,
    and those of a million fields would hold the event loop up for seconds.
    """
    count = error.error_count()
    if count <= _MAX_COUNTED:
        return refused_fields(error.errors(), count)
    try:
        validate(_beginning(data, _MAX_REPEATED_DEPTH))
    except ValidationError as first:
        return refused_fields([row for row in first.errors() if row["type"] not in _BY_CUTTING], count)
    return refused_fields([], count)


def _beginning(data: Any, depth: int) -> Any:
    """`data` with the first items of each container."""
    if not isinstance(data, dict | list) or depth == 0:
        return data
    if isinstance(data, list):
        return [_beginning(item, depth - 1) for item in data[:_MAX_ROWS]]
    return {key: _beginning(item, depth - 1) for key, item in islice(data.items(), _MAX_ROWS)}


def refused_fields(rows: Iterable[Mapping[str, Any]], count: int = 1) -> InvalidMessage:
    """The error of wrong fields. rows: in pydantic's shape; the first 50 are kept, and what they repeat is cut.

    count: the number of all wrong fields.
    """
    errors = [_short_row(row) for row in islice(rows, _MAX_ROWS)]
    text = "Invalid message"
    if count > len(errors):
        text += f": {count} fields are wrong" + (f", of which these are the first {len(errors)}" if errors else "")
    return InvalidMessage(text, errors=errors)


def _short_row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row whose values are short and keep nothing else in memory."""
    short = {**row, "loc": [_cut(part) for part in row["loc"]]}
    if "input" in row:
        short["input"] = _cut(row["input"])
    if "ctx" in row:  # may hold the exception of a validator, with its traceback
        short["ctx"] = {key: str(value) if isinstance(value, Exception) else value for key, value in row["ctx"].items()}
    return short


def _cut(value: Any) -> Any:
    """`value`, or the beginning of its JSON if that is longer than 200 characters."""
    if value is None or isinstance(value, bool | float):
        return value
    pieces, length = [], 0
    if isinstance(value, str):
        return value if len(value) <= _MAX_REPEATED_CHARACTERS else value[:_MAX_REPEATED_CHARACTERS] + "..."
    try:
        for piece in _ENCODER.iterencode(value):  # one by one: the whole may be large
            pieces.append(piece)
            length += len(piece)
            if length > _MAX_REPEATED_CHARACTERS:
                return "".join(pieces)[:_MAX_REPEATED_CHARACTERS] + "..."
    except (ValueError, RecursionError):  # an integer of thousands of digits
        return f"{type(value).__name__}, too large to repeat"
    return value


def checked(model: type[ModelT], data: dict[str, Any]) -> ModelT:
    """`data` as that model. Raises InvalidMessage that names each wrong field."""
    try:
        return model.model_validate(data)
    except ValidationError as error:
        raise invalid_message(error, model.model_validate, data) from None


def state_data(state: BaseModel) -> bytes:
    """A state as a JSON object. Raises ValueError, which names the field, for a value that JSON does not have."""
    try:
        data: bytes = type(state).__pydantic_serializer__.to_json(
            state, fallback=to_plain, serialize_as_any=has_models(type(state))
        )
    except ValueError as error:
        raise ValueError(unwritable(state, error)) from error
    return data


def response_frame(kind: str, data: bytes, request_id: str | None, *, truncated: bool) -> bytes:
    """A response in the published dialect, which has no place for an id or a validity. kind: observation or state."""
    return b'{"type":"%b","data":%b}' % (kind.encode(), data)


def extended_response_frame(kind: str, data: bytes, request_id: str | None, *, truncated: bool) -> bytes:
    """A response in the extended dialect. truncated: whether its episode was cut short."""
    try:
        encoded_id = orjson.dumps(request_id)
    except TypeError:  # half a surrogate pair
        encoded_id = error_json(request_id)
    return b'{"type":"%b","id":%b,"validity":"%b","data":%b}' % (
        kind.encode(), encoded_id, b"truncated" if truncated else b"valid", data,
    )  # fmt: skip


def error_data(error: RequestRefused) -> dict[str, Any]:
    """The data of an error frame."""
    return {"message": error.message, "code": error.code, **error.details}


def error_json(body: Any) -> bytes:
    """JSON of an error, which may repeat anything that a client sent: half a surrogate pair, an integer beyond 64 bits,
    or a thousand nested arrays, of which the inner ones are left out."""
    try:
        return orjson.dumps(body, default=to_plain_or_text)
    except TypeError:
        return json_text(_shallow(body, _MAX_REPEATED_DEPTH), default=to_plain_or_text).encode()


def _shallow(value: Any, depth: int) -> Any:
    """`value` with an ellipsis in place of everything below that depth."""
    if not isinstance(value, dict | list):
        return value
    if depth == 0:
        return "..."
    if isinstance(value, list):
        return [_shallow(item, depth - 1) for item in value]
    return {key: _shallow(item, depth - 1) for key, item in value.items()}


def error_frame(error: RequestRefused) -> bytes:
    """The response to a refused request, in the published dialect."""
    return error_json({"type": "error", "data": error_data(error)})


def extended_error_frame(error: RequestRefused, request_id: str | None) -> bytes:
    """The same in the extended dialect."""
    frame = {"type": "error", "id": request_id, "validity": error.validity, "data": error_data(error)}
    return error_json(frame)
