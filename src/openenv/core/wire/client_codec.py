"""The client's side of the wire: requests to frames, and frames to responses."""

import math
from dataclasses import dataclass
from typing import Any

from openenv.core.errors import EnvironmentFault, InvalidMessage, OpenEnvError, error_from_wire
from openenv.core.wire.arrays import packed
from openenv.core.wire.json_codec import to_plain, write_json

CLOSE = b'{"type":"close"}'
"""Ends the session."""
_REPORT_S = 10.0


@dataclass(slots=True)
class Request:
    """One request of a client."""

    kind: str
    data: Any = None
    """A JSON object, or the bytes of one; None leaves the key out, as a state request wants."""
    timeout_s: float | None = None
    """The most that the verb may take on the server; only in the extended dialect."""
    traceparent: str | None = None
    """The client's span, as W3C Trace Context writes it; only in the extended dialect and over HTTP."""
    has_arrays: bool = False
    """Whether the data hold arrays, which travel as raw bytes in a binary frame."""

    def response_timeout_s(self, message_timeout_s: float) -> float:
        """Limit of the response. A server that enforces a time limit of its own needs a little longer to report it.

        Raises ValueError for a `timeout_s` that is no number.
        """
        limit = self.timeout_s
        if limit is None:
            return message_timeout_s
        if not (isinstance(limit, int | float) and limit > -math.inf):
            raise ValueError(f"timeout_s={limit!r:.50}: give a number of seconds above 0")
        return max(message_timeout_s, limit + _REPORT_S)

    def encode(self, request_id: str | None) -> bytes:
        """The frame to send. request_id: None in the published dialect, which has none."""
        if self.has_arrays:
            return packed({"type": self.kind, "id": request_id, "data": self.data})
        head = f'{{"type":"{self.kind}"'
        if request_id is not None:
            head += f',"id":"{request_id}"'
            if self.timeout_s is not None:
                head += f',"timeout_s":{encode_body(self.timeout_s).decode()}'
            if self.traceparent is not None:
                head += f',"traceparent":{encode_body(self.traceparent).decode()}'
        data = self.data
        if data is None:
            return f"{head}}}".encode()
        return b'%b,"data":%b}' % (head.encode(), data if type(data) is bytes else encode_body(data))


def encode_body(body: Any) -> bytes:
    """JSON bytes of what a client sends. Raises TypeError, with its place, for a value that JSON cannot represent."""
    try:
        return write_json(body, default=to_plain)
    except TypeError as error:
        place, value = _unwritable(body)
        raise TypeError(
            f"{place or 'the request'}={value!r:.80} cannot be sent as JSON ({error}): send numbers, UTF-8 texts, "
            "lists, arrays, and objects whose keys are texts"
        ) from error


def _unwritable(value: Any, place: str = "") -> tuple[str, Any]:
    """The innermost part of a value that JSON cannot represent, and its place, such as `point.x[0]`."""
    parts: list[tuple[str, Any]] = []
    if isinstance(value, dict):
        parts = [(f"{place}.{key}".lstrip("."), item) for key, item in value.items()]
    elif isinstance(value, list | tuple):
        parts = [(f"{place}[{number}]", item) for number, item in enumerate(value)]
    for inner, item in parts:
        try:
            write_json(item, default=to_plain)
        except TypeError:
            return _unwritable(item, inner)
    return place, value


def unreadable(frame: bytes, why: str) -> dict[str, Any]:
    """The error message, marked `is_unreadable`, in place of a frame that holds no message."""
    reason = f"the server's answer is no JSON object of the protocol ({why}): {frame[:80]!r}"
    return {"type": "error", "is_unreadable": True, "data": {"message": reason, "code": EnvironmentFault.code}}


def response_error(message: dict[str, Any], expected_type: str) -> OpenEnvError:
    """The exception for a response that is an error, or of another type than expected."""
    if message.get("type") == "error":
        return error_from_wire(message.get("data") or {})
    return InvalidMessage(f"the server answered with type {message.get('type')!r}, expected {expected_type!r}")
