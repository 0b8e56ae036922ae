"""Requests to bytes, and answers to their data or to the exception that they stand for."""

from dataclasses import dataclass
from types import NoneType
from typing import Any

from openenv.core.arrays import unpacked
from openenv.core.errors import EnvironmentFault, InvalidMessage, error_from_wire
from openenv.core.json_text import read_json, write_json
from openenv.core.protocol import ANSWER_TYPE

_OBJECT, _TEXT = frozenset({dict, NoneType}), frozenset({str, NoneType})
"""What `data` and `id` of an answer may be."""


@dataclass(slots=True)
class Request:
    """One request of a client."""

    kind: str
    data: Any = None
    """Its JSON object, or the bytes of it; None leaves the key out, as a state request wants."""
    timeout_s: float | None = None
    """The most that the verb may take on the server; only in the extended dialect."""

    traceparent: str | None = None
    """The client's span, as W3C Trace Context writes it; only in the extended dialect and over HTTP."""

    def frame(self, request_id: str | None) -> bytes:
        """The frame to send; with an id in the extended dialect, without in the published one."""
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


def read_message(frame: bytes) -> dict[str, Any]:
    """The object in a text frame, or in a binary one; what is none is the error that its request ends with."""
    try:
        message = unpacked(frame) if frame[:1] == b"\x01" else read_json(frame)
    except ValueError as error:
        return _unreadable(frame, str(error))
    if type(message) is not dict:
        return _unreadable(frame, f"it is {type(message).__name__}")
    if type(message.get("data")) not in _OBJECT or type(message.get("id")) not in _TEXT:
        return _unreadable(frame, "its data is an object, its id text")
    return message


def _unreadable(frame: bytes, why: str) -> dict[str, Any]:
    said = f"the server's answer is no JSON object of the protocol ({why}): {frame[:80]!r}"
    return {"type": "error", "is_unreadable": True, "data": {"message": said, "code": EnvironmentFault.code}}


def encode_body(body: Any) -> bytes:
    """JSON bytes of what a client sends. Raises TypeError for what JSON has no word for."""
    return write_json(body, default=_plain)


def answer_data(message: dict[str, Any], kind: str) -> dict[str, Any]:
    """The data of an answer to a request of that kind. Raises the exception that an error answer stands for."""
    data: dict[str, Any] = message.get("data") or {}
    said, expected = message.get("type"), ANSWER_TYPE.get(kind, kind)
    if said != expected:
        if said == "error":
            raise error_from_wire(data)
        raise InvalidMessage(f"the server answered with type {said!r}, expected {expected!r}")
    if expected == "observation" and "validity" in message:
        data["validity"] = message["validity"]
    return data


def _plain(value: Any) -> Any:
    """numpy arrays and scalars as lists and numbers, for what an overridden `_step_payload` returns."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} in an action cannot be sent as JSON")
