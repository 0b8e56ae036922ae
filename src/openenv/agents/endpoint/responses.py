"""OpenAI's Responses: `POST /v1/responses`."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from openenv.agents.endpoint.chat import plain_tool_choice
from openenv.agents.endpoint.dialect import (
    Call,
    Memory,
    assistant_message,
    check_tool_choice,
    event,
    function_call,
    function_tool,
    message_of,
    new_id,
    sampling_of,
    schema_of,
    time_s,
    token_logprobs,
)
from openenv.agents.endpoint.fields import Fields, Part, image_part, text_part
from openenv.agents.endpoint.requests import (
    CalledTool,
    Message,
    ModelAnswer,
    ModelReply,
    ModelRequest,
    RequestRefused,
    ToolChoice,
)

_LOGPROBS = "message.output_text.logprobs"
_ROLES = ("system", "developer", "user", "assistant")
_ITEMS = ("message", "function_call", "function_call_output", "reasoning")
_TOOLS = ("function", "namespace")
_REPLY_ORDER = ("reasoning", "message", "function_call")
_IGNORED_INCLUDES = ("reasoning.encrypted_content",)
_INCOMPLETE = {"length": "max_output_tokens", "content_filter": "content_filter"}
_USAGE_DETAILS = {
    "input_tokens_details": {"cached_tokens": 0, "cache_write_tokens": 0},
    "output_tokens_details": {"reasoning_tokens": 0},
}
_ECHOED = ("instructions", "max_output_tokens", "metadata", "previous_response_id", "reasoning", "temperature", "text",
           "tool_choice", "tools", "top_p", "truncation", "user")  # fmt: skip
_ECHOED_DEFAULTS = {"metadata": {}, "text": {"format": {"type": "text"}}, "tool_choice": "auto", "tools": []}


class ResponsesCall(Call):
    """A call of Responses."""

    def __init__(self, fields: Fields, memory: Memory) -> None:
        super().__init__(fields, memory)
        fields.refuse_given("is not supported: leave it out", "background", "conversation", "prompt", "top_logprobs")
        for place, name in enumerate(fields.texts("include")):
            if name not in (_LOGPROBS, *_IGNORED_INCLUDES):
                fields.refuse(f"include[{place}]", f"{name[:100]!r} is not supported: leave it out")
        self._namespaces: dict[str, tuple[str, str]] = {}
        tools = list(self._tools(fields))
        choice, named = _tool_choice(fields)
        check_tool_choice(fields, tools, choice, named)
        self._conversation = (*self._earlier(), *_messages(fields))
        instructions = fields.text("instructions")
        system = ({"role": "system", "content": instructions},) if instructions else ()
        text = fields.object("text")
        form = text.object("format") if text else None
        self._parallel = fields.flag("parallel_tool_calls", default=True)
        self.request = ModelRequest(
            messages=(*system, *self._conversation),
            tools=tuple(tools),
            tool_choice=choice,
            named_tool=named,
            allows_parallel_calls=self._parallel,
            reply_schema=schema_of(form, None) if form else None,
            max_tokens=fields.whole_number("max_output_tokens", 1),
            sampling=sampling_of(fields),
            wants_logprobs=_LOGPROBS in fields.texts("include"),
        )

    def _tools(self, fields: Fields) -> Iterator[dict[str, Any]]:
        """The functions, those of namespaces under the names that the model sees."""
        for tool in fields.objects("tools"):
            kind = tool.required_text("type")
            if kind not in _TOOLS:
                tool.refuse("type", f"is {kind[:100]!r}, a tool that this service does not have: turn it off")
            if kind == "function":
                yield _tool(tool)
                continue
            namespace = tool.required_text("name")
            for inner in tool.objects("tools"):
                inner.choice("type", ("function",))
                function = _tool(inner)
                name = _full_name(namespace, function["name"])
                self._namespaces[name] = namespace, function["name"]
                yield {**function, "name": name}

    def _earlier(self) -> tuple[Message, ...]:
        """The conversation that the request goes on with."""
        previous = self.fields.text("previous_response_id")
        if previous is None:
            return ()
        if previous not in self.memory.responses:
            raise RequestRefused(
                f"previous_response_id: no response {previous[:100]!r} is stored for this key: give the id of one that "
                "was created with it and without store=false, or send the whole conversation as input",
                field_name="previous_response_id",
                code="previous_response_not_found",
            )
        return self.memory.responses[previous]

    def response(self, answer: ModelAnswer) -> dict[str, Any]:
        """The body of the response, which `previous_response_id` can name from now on."""
        reply, response_id = answer.replies[0], new_id("resp_")
        if self.fields.flag("store", default=True):
            self.memory.responses[response_id] = (*self._conversation, message_of(reply))
        reason = _INCOMPLETE.get(reply.end)
        body = self._head(response_id)
        body["status"] = "completed" if reason is None else "incomplete"
        body["incomplete_details"] = None if reason is None else {"reason": reason}
        body["output"] = list(_items(reply, body["status"], self._namespaces))
        body["usage"] = {
            "input_tokens": answer.num_prompt_tokens,
            "output_tokens": reply.num_tokens,
            "total_tokens": answer.num_prompt_tokens + reply.num_tokens,
            **_USAGE_DETAILS,
        }
        return body

    def _head(self, response_id: str) -> dict[str, Any]:
        """What a response repeats of its request."""
        given = {name: self.fields.values.get(name) for name in _ECHOED}
        defaults = {name: value for name, value in _ECHOED_DEFAULTS.items() if given[name] is None}
        return {
            "id": response_id,
            "object": "response",
            "created_at": time_s(),
            "model": self.model,
            "error": None,
            "parallel_tool_calls": self._parallel,
            **given,
            **defaults,
        }

    def events(self, response: dict[str, Any]) -> Iterator[bytes]:
        """The begin of the response, each item of its output, and its end."""
        begun = {**response, "status": "in_progress", "output": [], "usage": None, "incomplete_details": None}
        events: list[dict[str, Any]] = [
            {"type": f"response.{kind}", "response": begun} for kind in ("created", "in_progress")
        ]
        for place, item in enumerate(response["output"]):
            events += _item_events(place, item)
        events.append({"type": f"response.{response['status']}", "response": response})
        for number, data in enumerate(events):
            yield event({**data, "sequence_number": number}, data["type"])

    @classmethod
    def error_event(cls, refusal: RequestRefused) -> bytes:
        """The error as an event of a stream that has begun. `error` is what OpenAI's client raises."""
        error = cls.error(refusal)["error"]
        return event({**error, "type": "error", "error": error, "sequence_number": 0}, "error")


def _messages(fields: Fields) -> Iterator[Message]:
    """The messages of a request's input. Items of one reply become one message of the assistant."""
    if isinstance(fields.values.get("input"), str):
        yield {"role": "user", "content": fields.required_text("input")}
        return
    items = fields.objects("input")
    if not items:
        fields.refuse("input", "is missing or empty: give a text or a list of items")
    reply: list[tuple[str, Fields]] = []
    for item in items:
        kind = item.choice("type", _ITEMS) if item.values.get("type") is not None else "message"
        if kind == "function_call_output" or (kind == "message" and item.choice("role", _ROLES) != "assistant"):
            yield from _reply(reply)
            reply = []
            yield _message(item) if kind == "message" else _result(item)
            continue
        if reply and not _continues(reply[-1][0], kind):
            yield from _reply(reply)
            reply = []
        reply.append((kind, item))
    yield from _reply(reply)


def _continues(last: str, kind: str) -> bool:
    """Whether an item can belong to the same reply as the last one: thinking, then one message, then calls."""
    rank, last_rank = _REPLY_ORDER.index(kind), _REPLY_ORDER.index(last)
    return rank > last_rank or (rank == last_rank and kind != "message")


def _reply(items: Sequence[tuple[str, Fields]]) -> Iterator[Message]:
    """The message of a reply, if it has items."""
    content, reasoning, calls = "", "", []
    for kind, item in items:
        if kind == "reasoning":
            parts = item.objects("content") or item.objects("summary")
            reasoning += "\n".join(part.required_text("text") for part in parts)
        elif kind == "message":
            content = str(item.content("content", _said, ""))
        else:
            call_id, name = item.required_text("call_id"), item.required_text("name")
            name = _full_name(item.text("namespace") or "", name)
            calls.append(function_call(CalledTool(call_id, name, item.required_text("arguments"))))
    if items:
        yield assistant_message(content, reasoning, calls)


def _message(item: Fields) -> Message:
    role = item.required_text("role")
    if item.values.get("content") is None:
        item.refuse("content", "is missing: give a text or a list of parts")
    return {"role": "system" if role == "developer" else role, "content": item.content("content", _part)}


def _result(item: Fields) -> Message:
    if item.values.get("output") is None:
        item.refuse("output", "is missing: give a text or a list of parts")
    call_id = item.required_text("call_id")
    return {"role": "tool", "content": item.content("output", _part), "tool_call_id": call_id}


def _part(part: Fields) -> Part:
    if part.choice("type", ("input_text", "input_image")) == "input_text":
        return text_part(part.required_text("text"))
    if part.values.get("file_id") is not None:
        part.refuse("file_id", "files are not supported: give image_url, a URL or a data URL")
    return image_part(part.required_text("image_url"))


def _said(part: Fields) -> Part:
    """A part of an assistant's message."""
    kind = part.choice("type", ("output_text", "input_text", "refusal"))
    return text_part(part.required_text("refusal" if kind == "refusal" else "text"))


def _tool(fields: Fields) -> dict[str, Any]:
    return function_tool(fields.required_text("name"), fields.text("description"), fields.object("parameters"))


def _full_name(namespace: str, name: str) -> str:
    """The name that the model sees of a function in a namespace. Templates and APIs allow no dot in it."""
    return f"{namespace.removesuffix('__')}__{name}" if namespace else name


def _tool_choice(fields: Fields) -> tuple[ToolChoice, str | None]:
    """The choice, and the name of the one tool that has to be called."""
    if isinstance(fields.values.get("tool_choice"), dict):
        given = fields.required_object("tool_choice")
        given.choice("type", ("function",))
        return "required", given.required_text("name")
    return plain_tool_choice(fields), None


def _items(reply: ModelReply, status: str, namespaces: Mapping[str, tuple[str, str]]) -> Iterator[dict[str, Any]]:
    """The output: the thinking, what the model says, and its calls.

    Args:
        reply: the model's.
        status: of each item.
        namespaces: namespace and name of each function that has one, by the name that the model sees.
    """
    if reply.reasoning:
        content = [{"type": "reasoning_text", "text": reply.reasoning}]
        yield {"type": "reasoning", "id": new_id("rs_"), "summary": [], "content": content, "status": status}
    if reply.content or not reply.tool_calls:
        part = {"type": "output_text", "text": reply.content, "annotations": [], "logprobs": token_logprobs(reply)}
        message = {"type": "message", "id": new_id("msg_"), "role": "assistant", "status": status}
        yield {**message, "content": [part]}
    for call in reply.tool_calls:
        named = {"call_id": call.id, "name": call.name, "arguments": call.arguments}
        if call.name in namespaces:
            named["namespace"], named["name"] = namespaces[call.name]
        yield {"type": "function_call", "id": new_id("fc_"), "status": status, **named}


def _item_events(place: int, item: dict[str, Any]) -> list[dict[str, Any]]:
    """An item's begin, its text or arguments, and its end."""
    begun: dict[str, Any]
    at = {"item_id": item["id"], "output_index": place}
    if item["type"] == "function_call":
        begun, name, arguments = {"arguments": ""}, "response.function_call_arguments", item["arguments"]
        inner = [
            {"type": f"{name}.delta", **at, "delta": arguments},
            {"type": f"{name}.done", **at, "arguments": arguments, "name": item["name"]},
        ]
    else:
        begun = {"content": []}
        part, at_part = item["content"][0], {**at, "content_index": 0}
        logprobs = {"logprobs": part["logprobs"]} if "logprobs" in part else {}
        name, text = f"response.{part['type']}", part["text"]
        inner = [
            {"type": "response.content_part.added", **at_part, "part": {**part, "text": ""}},
            {"type": f"{name}.delta", **at_part, "delta": text, **logprobs},
            {"type": f"{name}.done", **at_part, "text": text, **logprobs},
            {"type": "response.content_part.done", **at_part, "part": part},
        ]
    added = {**item, "status": "in_progress", **begun}
    return [
        {"type": "response.output_item.added", "output_index": place, "item": added},
        *inner,
        {"type": "response.output_item.done", "output_index": place, "item": item},
    ]
