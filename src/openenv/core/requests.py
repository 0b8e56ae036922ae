"""Requests to bytes, and answers to their data or to the exception that they stand for."""

from typing import Any

import orjson

from openenv.core.errors import InvalidMessage, error_from_wire

ANSWER_TYPE = {"reset": "observation", "step": "observation", "state": "state"}


def encode_request(kind: str, data: Any) -> bytes:
    """The frame of a request; `data` None leaves the key out, as a state request wants."""
    return encode_body({"type": kind} if data is None else {"type": kind, "data": data})


def encode_body(body: Any) -> bytes:
    """JSON bytes of what a client sends. Raises TypeError for what JSON has no word for."""
    return orjson.dumps(body, default=_plain)


def answer_data(answer: bytes, expected: str) -> dict[str, Any]:
    """The data of an answer frame. Raises the exception that an error answer stands for."""
    message = orjson.loads(answer)
    if message.get("type") == "error":
        raise error_from_wire(message.get("data") or {})
    if message.get("type") != expected:
        raise InvalidMessage(f"the server answered with type {message.get('type')!r}, expected {expected!r}")
    data: dict[str, Any] = message["data"]
    return data


def _plain(value: Any) -> Any:
    """numpy arrays and scalars as lists and numbers, for what an overridden `_step_payload` returns."""
    if hasattr(value, "tolist"):
        return value.tolist()
    raise TypeError(f"{type(value).__name__} in an action cannot be sent as JSON")
