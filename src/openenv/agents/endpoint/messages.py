"""Anthropic's Messages: `POST /v1/messages`."""

from collections.abc import Iterator
from typing import Any, ClassVar

import orjson

from openenv.agents.endpoint.dialect import (
    Call,
    Memory,
    assistant_message,
    check_tool_choice,
    event,
    function_call,
    function_tool,
    new_id,
    sampling_of,
    schema_of,
)
from openenv.agents.endpoint.fields import Fields, Part, image_part, joined, text_part
from openenv.agents.endpoint.requests import (
    CalledTool,
    EndReason,
    Message,
    ModelAnswer,
    ModelReply,
    ModelRequest,
    RequestRefused,
    ToolChoice,
)
from openenv.formats.json_text import json_text

_ERRORS = {
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    529: "overloaded_error",
}
_END_REASONS: dict[EndReason, str] = {
    "stop": "end_turn",
    "tool_calls": "tool_use",
    "length": "max_tokens",
    "content_filter": "refusal",
}
_CHOICES: dict[str, ToolChoice] = {"auto": "auto", "none": "none", "any": "required", "tool": "required"}


class MessagesCall(Call):
    """A call of Anthropic's Messages."""

    keep_alive: ClassVar[bytes] = event({"type": "ping"}, "ping")

    def __init__(self, fields: Fields, memory: Memory) -> None:
        super().__init__(fields, memory)
        fields.refuse_given("is not supported: leave it out", "container", "mcp_servers")
        tools = [_tool(tool) for tool in fields.objects("tools")]
        chosen = fields.object("tool_choice")
        choice: ToolChoice = _CHOICES[chosen.choice("type", tuple(_CHOICES))] if chosen else "auto"
        named = chosen.required_text("name") if chosen and chosen.values["type"] == "tool" else None
        check_tool_choice(fields, tools, choice, named)
        config = fields.object("output_config")
        form = (config.object("format") if config else None) or fields.object("output_format")
        self.request = ModelRequest(
            messages=tuple(self._messages()),
            tools=tuple(tools),
            tool_choice=choice,
            named_tool=named,
            allows_parallel_calls=not (chosen and chosen.flag("disable_parallel_tool_use")),
            reply_schema=schema_of(form, None) if form else None,
            max_tokens=fields.whole_number("max_tokens", 1),
            stop=fields.texts("stop_sequences"),
            sampling=sampling_of(fields),
        )

    def _messages(self) -> Iterator[Message]:
        given = self.fields.objects("messages")
        if not given:
            self.fields.refuse("messages", "is missing or empty: give one message or more")
        if given[-1].values.get("role") == "assistant":
            given[-1].refuse("role", "a reply cannot be begun for the model: end with a message of the user")
        if self.fields.values.get("system"):
            yield {"role": "system", "content": self.fields.content("system", _text)}
        for message in given:
            role = message.choice("role", ("user", "assistant", "system"))
            if role == "system":
                yield {"role": "system", "content": message.content("content", _text)}
            elif role == "assistant":
                yield self._assistant(message)
            else:
                yield from _from_user(message)

    def _assistant(self, message: Fields) -> Message:
        texts, thoughts, calls = [], [], []
        for block in _blocks(message):
            kind = block.choice("type", ("text", "thinking", "redacted_thinking", "tool_use"))
            if kind == "text":
                texts.append(block.required_text("text"))
            elif kind == "thinking":
                thoughts.append(block.required_text("thinking"))
            elif kind == "tool_use":
                calls.append(function_call(self._call(block)))
        return assistant_message("".join(texts), "".join(thoughts), calls)

    def _call(self, block: Fields) -> CalledTool:
        """A call with its arguments as the model wrote them, where it is one of this episode's own."""
        call_id, given = block.required_text("id"), block.required_object("input").values
        written = self.memory.arguments.get(call_id)
        arguments = written if written is not None and _input(written) == given else json_text(given)
        return CalledTool(call_id, block.required_text("name"), arguments)

    def response(self, answer: ModelAnswer) -> dict[str, Any]:
        """The body of the response."""
        reply = answer.replies[0]
        self.memory.arguments.update((call.id, call.arguments) for call in reply.tool_calls)
        return {
            "id": new_id("msg_"),
            "type": "message",
            "role": "assistant",
            "model": self.model,
            "content": list(_content(reply)),
            "stop_reason": "stop_sequence" if reply.stopped_by is not None else _END_REASONS[reply.end],
            "stop_sequence": reply.stopped_by,
            "usage": {"input_tokens": answer.num_prompt_tokens, "output_tokens": reply.num_tokens},
        }

    def events(self, response: dict[str, Any]) -> Iterator[bytes]:
        """The start of the message, each block, and the end of the message."""
        usage = {**response["usage"], "output_tokens": 0}
        empty = {**response, "content": [], "stop_reason": None, "stop_sequence": None, "usage": usage}
        yield _named({"type": "message_start", "message": empty})
        for place, block in enumerate(response["content"]):
            start, deltas = _parts_of(block)
            yield _named({"type": "content_block_start", "index": place, "content_block": {**block, **start}})
            for delta in deltas:
                yield _named({"type": "content_block_delta", "index": place, "delta": delta})
            yield _named({"type": "content_block_stop", "index": place})
        end = {name: response[name] for name in ("stop_reason", "stop_sequence")}
        yield _named({"type": "message_delta", "delta": end, "usage": response["usage"]})
        yield _named({"type": "message_stop"})

    @classmethod
    def error(cls, refusal: RequestRefused) -> dict[str, Any]:
        """The body of a response that refuses a request."""
        kind = _ERRORS.get(refusal.status, "invalid_request_error" if refusal.status < 500 else "api_error")
        return {"type": "error", "error": {"type": kind, "message": str(refusal)}}

    @classmethod
    def error_event(cls, refusal: RequestRefused) -> bytes:
        """The error as an event of a stream that has begun."""
        return _named(cls.error(refusal))


def _named(data: dict[str, Any]) -> bytes:
    """An event with the name of its type."""
    return event(data, data["type"])


def _blocks(message: Fields) -> list[Fields]:
    """The blocks of a message's content; a text is one."""
    content = message.values.get("content")
    if isinstance(content, str):
        return [Fields(text_part(content), message.path_of("content"))]
    return message.objects("content") if content is not None else message.refuse("content", "is missing")


def _from_user(message: Fields) -> Iterator[Message]:
    """The results of tools in a message of the user, and what the user says, in the order that they have."""
    parts: list[Part] = []
    for block in _blocks(message):
        if block.choice("type", ("text", "image", "tool_result")) != "tool_result":
            parts.append(_part(block))
            continue
        if parts:
            yield {"role": "user", "content": joined(parts)}
            parts = []
        content = block.content("content", _part)
        yield {"role": "tool", "content": content, "tool_call_id": block.required_text("tool_use_id")}
    if parts:
        yield {"role": "user", "content": joined(parts)}


def _text(block: Fields) -> Part:
    block.choice("type", ("text",))
    return text_part(block.required_text("text"))


def _part(block: Fields) -> Part:
    if block.choice("type", ("text", "image")) == "text":
        return text_part(block.required_text("text"))
    source = block.required_object("source")
    if source.choice("type", ("base64", "url")) == "url":
        return image_part(source.required_text("url"))
    return image_part(f"data:{source.required_text('media_type')};base64,{source.required_text('data')}")


def _tool(fields: Fields) -> dict[str, Any]:
    if fields.values.get("type") is not None:
        fields.choice("type", ("custom",))
    return function_tool(fields.required_text("name"), fields.text("description"), fields.object("input_schema"))


def _input(arguments: str) -> dict[str, Any]:
    """A call's arguments as the object that Anthropic's API has of them, also where they are no JSON object."""
    try:
        read = orjson.loads(arguments or "{}")
    except ValueError:
        read = None
    return read if isinstance(read, dict) else {"invalid_json": arguments}


def _content(reply: ModelReply) -> Iterator[dict[str, Any]]:
    if reply.reasoning:
        yield {"type": "thinking", "thinking": reply.reasoning, "signature": ""}
    if reply.content:
        yield {"type": "text", "text": reply.content}
    for call in reply.tool_calls:
        yield {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call.arguments)}


def _parts_of(block: dict[str, Any]) -> tuple[dict[str, Any], list[dict[str, Any]]]:
    """What a block has at its start, and the deltas that complete it."""
    if block["type"] == "thinking":
        signature = {"type": "signature_delta", "signature": block["signature"]}
        return {"thinking": ""}, [{"type": "thinking_delta", "thinking": block["thinking"]}, signature]
    if block["type"] == "text":
        return {"text": ""}, [{"type": "text_delta", "text": block["text"]}]
    return {"input": {}}, [{"type": "input_json_delta", "partial_json": json_text(block["input"])}]
