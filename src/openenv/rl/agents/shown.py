"""What the model is shown of a request, and how its replies are read: functions, calls, results and thinking."""

import re
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from openenv.agents.endpoint.requests import Message, RequestRefused, arguments_of
from openenv.formats.json_text import json_text
from openenv.policies.prompts import ChatMessage
from openenv.rl.models.chat import Chat
from openenv.rl.models.chat_template import ChatTemplateError
from openenv.text.action_forms import call_text
from openenv.text.calls import call_of, written_calls
from openenv.text.content import Content, joined
from openenv.text.objects import objects_in
from openenv.text.reading import after_thinking

_CALL = re.compile(r"<tool_call>\s*(.*?)\s*(?:</tool_call>|\Z)", re.DOTALL)
_INTRODUCTION = "You may call these functions:"
_FORM = "To call one, write " + call_text("NAME", {"ARGUMENT": "VALUE"})


class ReadReply(NamedTuple):
    """The parts of a reply."""

    reasoning: str
    content: str
    calls: tuple[tuple[str, str], ...]
    """Name and arguments, as JSON."""


class ShownTools:
    """Shows requests with some functions, to a model whose chat template has them.

    For others (`is_described`) the system message describes them, calls are text, and results are messages of the user.
    """

    def __init__(self, tools: Sequence[Message], *, is_described: bool) -> None:
        self.names = frozenset(str(tool["name"]) for tool in tools)
        lines = [_INTRODUCTION, *(json_text(dict(tool), ensure_ascii=False) for tool in tools), _FORM]
        self._described = "\n".join(lines) if tools and is_described else ""

    def messages(self, messages: Sequence[Message]) -> list[ChatMessage]:
        """The messages as the template takes them. Raises RequestRefused for parts that no model reads."""
        names = {call["id"]: call["function"]["name"] for one in messages for call in one.get("tool_calls") or ()}
        shown: list[ChatMessage] = []
        for message in messages:
            one = self._shown(message, names)
            follows = shown[-1]["role"] if shown else None
            is_joined = one["role"] == "system" or (one["role"] == "user" and bool(self._described))
            if is_joined and follows == one["role"]:
                shown[-1]["content"] = joined(shown[-1]["content"], "\n", one["content"])
            else:
                shown.append(one)
        if self._described:
            system = shown.pop(0)["content"] if shown and shown[0]["role"] == "system" else ""
            shown.insert(0, {"role": "system", "content": joined(system, "\n", self._described)})
        return shown

    def read(self, text: str, *, is_thought: bool) -> ReadReply:
        """A reply in its parts. is_thought: whether the prompt has opened its thinking."""
        answer = after_thinking(text, is_thought=is_thought)
        if answer is None:
            return ReadReply(text, "", ())
        reasoning = text[: len(text) - len(answer)].strip() if text.endswith(answer) else ""
        if not self.names:
            return ReadReply(reasoning, answer.strip(), ())
        start, calls = _calls_in(answer, self.names)
        return ReadReply(reasoning, answer[:start].strip(), tuple(calls))

    def _shown(self, message: Message, names: Mapping[str, str]) -> ChatMessage:
        role, content = message["role"], _content(message.get("content") or "")
        calls = message.get("tool_calls") or ()
        if role == "tool":
            name = names.get(message.get("tool_call_id", ""), "")
            if self._described:
                return {"role": "user", "content": joined(f"Result of {name}:" if name else "Result:", content)}
            return {"role": "tool", "content": content, "name": name}
        if role != "assistant" or not calls:
            return {"role": role, "content": content}
        if self._described:
            texts = [call_text(call["function"]["name"], arguments_of(call)) for call in calls]
            return {"role": role, "content": joined(content, *texts)}
        functions = [{"name": call["function"]["name"], "arguments": arguments_of(call)} for call in calls]
        listed = [{"type": "function", "function": function} for function in functions]
        return {"role": role, "content": content, "tool_calls": listed}


def chat_with(chat: Chat, tools: Sequence[Message]) -> tuple[Chat, ShownTools]:
    """The chat that has some functions, where its template renders them, and how requests with them are shown."""
    functions = [{"type": "function", "function": dict(tool)} for tool in tools]
    try:
        return chat.with_tools(functions), ShownTools(tools, is_described=False)
    except ChatTemplateError:
        return chat, ShownTools(tools, is_described=True)


def _content(content: Any) -> Content:
    """A text, or parts of text and images, as our chat has them. Raises RequestRefused for others."""
    if isinstance(content, str):
        return content
    parts = []
    for part in content:
        if part["type"] == "text":
            parts.append({"type": "text", "text": part["text"]})
        elif part["type"] == "image_url":
            parts.append({"type": "image", "image": part["image_url"]["url"], "name": "image_url"})
        else:
            raise RequestRefused(f"messages: the model reads no {part['type']}. Send text", field_name="messages")
    if all(part["type"] == "text" for part in parts):
        return "".join(part["text"] for part in parts)
    return parts


def _calls_in(answer: str, names: frozenset[str]) -> tuple[int, list[tuple[str, str]]]:
    """Where the calls of known functions begin in an answer, and these: tags, or an answer that is nothing else."""
    marked = list(_CALL.finditer(answer))
    if marked:
        found = [call for one in marked for call in _read(one[1], names)]
        return (marked[0].start(), found) if found else (len(answer), [])
    found = _read(answer, names) if answer.lstrip().startswith(("{", "[", "<")) else []
    return (0, found) if found else (len(answer), [])


def _read(text: str, names: frozenset[str]) -> list[tuple[str, str]]:
    calls = [call for entry in objects_in(text) if (call := call_of(entry)) is not None and call["name"] in names]
    calls = calls or [call for call in written_calls(text, names) if call["name"] in names]
    return [(call["name"], json_text(call["arguments"], ensure_ascii=False)) for call in calls]
