"""Converts conversations and tools between the formats of the OpenAI and the Anthropic APIs."""

import json
from dataclasses import dataclass, field
from typing import Any

from openenv.formats.json_text import json_text


@dataclass
class ToolCall:
    """A tool call that the model requests."""

    id: str
    name: str
    args: dict[str, Any]


@dataclass(frozen=True, slots=True)
class TokenUsage:
    """The tokens of one request, as the service counted them."""

    prompt_tokens: int
    completion_tokens: int


@dataclass
class LLMResponse:
    """A model's response: its text and its tool calls."""

    content: str
    tool_calls: list[ToolCall] = field(default_factory=list)
    usage: TokenUsage | None = None
    """None where the service does not count."""
    is_cut_off: bool = False
    """Whether the limit of tokens ended it."""

    def to_message_dict(self) -> dict[str, Any]:
        """The response as an assistant message of the OpenAI API, to append to the conversation."""
        message: dict[str, Any] = {"role": "assistant", "content": self.content}
        if self.tool_calls:
            message["tool_calls"] = [openai_call(call) for call in self.tool_calls]
        return message


class UnexpectedContent(ValueError):
    """The content of a message is neither a text nor a list of parts of known types."""


_TEXTS, _THOUGHTS = ("text", "output_text"), ("thinking", "reasoning", "redacted_thinking")
"""Types of the parts that are what a model says, and of those that are what it thinks."""


def content_text(content: Any) -> str:
    """What the content of an assistant's message says: a text, or the texts among its parts, without its thinking.

    Raises UnexpectedContent, which names the shape, for anything else: no representation of it is a reply.
    """
    if content is None or isinstance(content, str):
        return whole_characters(content or "")
    if not isinstance(content, list):
        raise UnexpectedContent(f"a content of type {type(content).__name__}: a text or a list of parts is expected")
    kinds = [part.get("type") if isinstance(part, dict) else type(part).__name__ for part in content]
    unknown = [str(kind) for kind in kinds if kind not in (*_TEXTS, *_THOUGHTS)]
    texts = [part.get("text") for part, kind in zip(content, kinds, strict=True) if kind in _TEXTS]
    if unknown or not all(isinstance(text, str) for text in texts):
        wrong = ", ".join(dict.fromkeys(unknown)) or "text without a text"
        raise UnexpectedContent(
            f"a content with parts of type {wrong}: {' and '.join(_TEXTS + _THOUGHTS)} are expected"
        )
    return whole_characters("".join(map(str, texts)))


def whole_characters(text: str) -> str:
    """The text with a question mark for each half of a character (a lone surrogate), which no file can hold."""
    return text.encode("utf-8", "replace").decode("utf-8")


def openai_call(call: ToolCall) -> dict[str, Any]:
    """A call as an assistant message of the OpenAI API has it."""
    function = {"name": call.name, "arguments": json_text(call.args)}
    return {"id": call.id, "type": "function", "function": function}


def openai_tools(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """MCP tools as functions of the OpenAI API."""
    return [{"type": "function", "function": _described(tool, "parameters")} for tool in tools]


def anthropic_tools(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """MCP tools as tools of the Anthropic API."""
    return [_described(tool, "input_schema") for tool in tools]


def _described(tool: dict[str, Any], schema_key: str) -> dict[str, Any]:
    schema = tool.get("inputSchema", tool.get("input_schema"))
    return {"name": tool["name"], "description": tool.get("description", ""), schema_key: _object_schema(schema)}


def _object_schema(schema: Any) -> dict[str, Any]:
    """`schema` as one object schema, as the APIs require: the first of alternatives, the union of parts."""
    if not isinstance(schema, dict):
        return {"type": "object", "properties": {}, "required": []}
    for choice in ("oneOf", "anyOf"):
        if choice in schema:
            objects = (s for s in schema[choice] if isinstance(s, dict) and s.get("type") == "object")
            return _object_schema(next(objects, None))
    if "allOf" in schema:
        rest = {key: value for key, value in schema.items() if key != "allOf"}
        return _union([rest, *(part for part in schema["allOf"] if isinstance(part, dict))])
    return {"type": "object", "properties": {}, **schema}


def _union(parts: list[dict[str, Any]]) -> dict[str, Any]:
    properties: dict[str, Any] = {}
    required: list[str] = []
    for part in parts:
        properties |= part.get("properties", {})
        required += [name for name in part.get("required", []) if name not in required]
    return {**parts[0], "type": "object", "properties": properties, "required": required}


def anthropic_messages(messages: list[dict[str, Any]]) -> tuple[str, list[dict[str, Any]]]:
    """A conversation of the OpenAI API as the Anthropic API's system text and messages.

    Raises ValueError for a role other than system, user, assistant, tool.
    """
    system: list[str] = []
    converted: list[dict[str, Any]] = []
    for message in messages:
        role = message["role"]
        if role == "system":
            system.append(message["content"])
        elif role == "user":
            converted.append({"role": "user", "content": message["content"]})
        elif role == "assistant":
            converted.append({"role": "assistant", "content": _assistant_content(message)})
        elif role == "tool":
            _append_tool_result(converted, message)
        else:
            raise ValueError(f"role={role!r}: use system, user, assistant or tool")
    return "\n\n".join(system), converted


def _assistant_content(message: dict[str, Any]) -> str | list[dict[str, Any]]:
    text = message.get("content") or ""
    if not message.get("tool_calls"):
        return text
    blocks: list[dict[str, Any]] = [{"type": "text", "text": text}] if text else []
    for call in message["tool_calls"]:
        args = call["function"]["arguments"]
        args = json.loads(args) if isinstance(args, str) else args
        blocks.append({"type": "tool_use", "id": call["id"], "name": call["function"]["name"], "input": args})
    return blocks


def _append_tool_result(converted: list[dict[str, Any]], message: dict[str, Any]) -> None:
    """Append a tool's result to the user's turn. Consecutive results share one turn."""
    result = {"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}
    if converted and converted[-1]["role"] == "user" and isinstance(converted[-1]["content"], list):
        converted[-1]["content"].append(result)
    else:
        converted.append({"role": "user", "content": [result]})
