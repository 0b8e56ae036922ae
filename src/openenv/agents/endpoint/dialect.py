"""What the APIs have in common: a call that is read from a request, and written as a response or as its events."""

import time
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from secrets import token_hex
from typing import Any, ClassVar

from openenv.agents.endpoint.fields import Fields
from openenv.agents.endpoint.requests import (
    CalledTool,
    Message,
    ModelAnswer,
    ModelReply,
    ModelRequest,
    RequestRefused,
    ToolChoice,
)
from openenv.core.wire.json_codec import write_json

DEFAULT_MODEL = "openenv"
"""The model's name in responses to requests that name none."""
_SAMPLING = ("temperature", "top_p", "top_k", "min_p", "presence_penalty", "frequency_penalty", "seed")
_OPENAI_TYPES = {401: "authentication_error", 403: "permission_error", 404: "not_found_error", 429: "rate_limit_error"}


@dataclass
class Memory:
    """What the endpoint keeps of an episode's earlier calls."""

    responses: dict[str, tuple[Message, ...]] = field(default_factory=dict)
    """By the id of a response of the Responses API: its conversation, up to the reply."""
    arguments: dict[str, str] = field(default_factory=dict)
    """By the id of a call: its arguments as the model wrote them. Anthropic's API has them as an object only."""


class Call(ABC):
    """A call of the model in one API. Its errors have OpenAI's form, unless a subclass has another."""

    keep_alive: ClassVar[bytes] = b": the model works\n\n"
    """Sent at intervals until the answer is complete."""
    request: ModelRequest

    def __init__(self, fields: Fields, memory: Memory) -> None:
        """Read a request. Raises RequestRefused, which names the field at fault."""
        self.fields = fields
        self.memory = memory
        self.model = fields.text("model") or DEFAULT_MODEL
        self.is_streamed = fields.flag("stream")

    @abstractmethod
    def response(self, answer: ModelAnswer) -> dict[str, Any]:
        """The body of the response."""

    @abstractmethod
    def events(self, response: dict[str, Any]) -> Iterator[bytes]:
        """The events of the stream, made from the body of the response."""

    @classmethod
    def error(cls, refusal: RequestRefused) -> dict[str, Any]:
        """The body of a response that refuses a request."""
        kind = _OPENAI_TYPES.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "server_error")
        fields = {"message": str(refusal), "type": kind, "param": refusal.field_name, "code": refusal.code}
        return {"error": fields}

    @classmethod
    def error_event(cls, refusal: RequestRefused) -> bytes:
        """The error as an event of a stream that has begun."""
        return event(cls.error(refusal))


def event(data: Any, name: str | None = None) -> bytes:
    """A server-sent event with JSON."""
    return b"%bdata: %b\n\n" % (b"event: %b\n" % name.encode() if name else b"", write_json(data))


def new_id(prefix: str) -> str:
    """An id that nothing else has."""
    return prefix + token_hex(12)


def time_s() -> int:
    """The time of a response, in seconds since 1970."""
    return int(time.time())


def assistant_message(content: str, reasoning: str, calls: Sequence[Mapping[str, Any]]) -> Message:
    """An assistant's message in the one form that requests have, whatever the API."""
    message: dict[str, Any] = {"role": "assistant", "content": content}
    if reasoning:
        message["reasoning_content"] = reasoning
    if calls:
        message["tool_calls"] = list(calls)
    return message


def message_of(reply: ModelReply) -> Message:
    """A reply as the message that later requests have of it."""
    return assistant_message(reply.content, reply.reasoning, [function_call(call) for call in reply.tool_calls])


def function_call(call: CalledTool) -> dict[str, Any]:
    """A call as an assistant's message has it."""
    return {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}


def function_tool(name: str, description: str | None, parameters: Fields | None) -> dict[str, Any]:
    """A tool as a request has it. Without parameters it takes none."""
    schema = {"type": "object", "properties": {}} if parameters is None else parameters.values
    return {"name": name, "description": description or "", "parameters": schema}


def check_tool_choice(
    fields: Fields, tools: Sequence[Mapping[str, Any]], choice: ToolChoice, named: str | None
) -> None:
    """Raise RequestRefused for a choice that the tools do not allow."""
    if choice == "required" and not tools:
        fields.refuse("tool_choice", "a call is required without any tool: give tools, or leave it out")
    if named is not None and all(tool["name"] != named for tool in tools):
        fields.refuse("tool_choice", f"names {named[:100]!r}, which is not among the tools: name one of them")


def sampling_of(fields: Fields) -> dict[str, float]:
    """What the program asks of the draws."""
    given = {name: fields.number(name) for name in _SAMPLING}
    return {name: value for name, value in given.items() if value is not None}


def schema_of(form: Fields, schema_in: Fields | None) -> dict[str, Any] | None:
    """The JSON schema of a reply's form; None for any text.

    Args:
        form: With the type text, json_object or json_schema.
        schema_in: What has the field `schema`.
    """
    kind = form.choice("type", ("text", "json_object", "json_schema"))
    if kind == "json_schema":
        return (schema_in or form).required_object("schema").values
    return {"type": "object"} if kind == "json_object" else None


def token_logprobs(reply: ModelReply) -> list[dict[str, Any]]:
    """The log-probabilities of a reply's tokens, as OpenAI's APIs have them."""
    return [
        {"token": token, "logprob": logprob, "bytes": list(token.encode()), "top_logprobs": []}
        for token, logprob in reply.logprobs or ()
    ]
