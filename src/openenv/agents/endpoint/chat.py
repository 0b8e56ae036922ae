"""Chat Completions: `POST /v1/chat/completions`."""

from collections.abc import Iterator
from typing import Any

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
    time_s,
    token_logprobs,
)
from openenv.agents.endpoint.fields import Fields, Part, image_part, text_part
from openenv.agents.endpoint.requests import CalledTool, Message, ModelAnswer, ModelReply, ModelRequest, ToolChoice

_MAX_REPLIES = 128
_ROLES = ("system", "developer", "user", "assistant", "tool")


class ChatCall(Call):
    """A call of Chat Completions."""

    def __init__(self, fields: Fields, memory: Memory) -> None:
        super().__init__(fields, memory)
        fields.refuse_given("is not supported: leave it out", "audio", "web_search_options", "logit_bias")
        fields.refuse_given("is not supported: give tools and tool_choice", "functions", "function_call")
        if "audio" in fields.texts("modalities"):
            fields.refuse("modalities", "audio is not supported: leave it out")
        if fields.whole_number("top_logprobs", 0):
            fields.refuse("top_logprobs", "only those of the reply's own tokens are known: use 0")
        if not fields.objects("messages"):
            fields.refuse("messages", "is missing or empty: give one message or more")
        tools = [_tool(tool) for tool in fields.objects("tools")]
        choice, named = _tool_choice(fields)
        check_tool_choice(fields, tools, choice, named)
        form = fields.object("response_format")
        self.request = ModelRequest(
            messages=tuple(map(_message, fields.objects("messages"))),
            tools=tuple(tools),
            tool_choice=choice,
            named_tool=named,
            allows_parallel_calls=fields.flag("parallel_tool_calls", default=True),
            reply_schema=schema_of(form, form.object("json_schema")) if form else None,
            num_replies=fields.whole_number("n", 1, _MAX_REPLIES) or 1,
            max_tokens=fields.whole_number("max_completion_tokens", 1) or fields.whole_number("max_tokens", 1),
            stop=fields.texts("stop"),
            sampling=sampling_of(fields),
            wants_logprobs=fields.flag("logprobs"),
        )
        options = fields.object("stream_options")
        self._includes_usage = options is not None and options.flag("include_usage")

    def response(self, answer: ModelAnswer) -> dict[str, Any]:
        """The body of the response."""
        num_tokens = sum(reply.num_tokens for reply in answer.replies)
        return {
            "id": new_id("chatcmpl-"),
            "object": "chat.completion",
            "created": time_s(),
            "model": self.model,
            "choices": [_choice(place, reply) for place, reply in enumerate(answer.replies)],
            "usage": {
                "prompt_tokens": answer.num_prompt_tokens,
                "completion_tokens": num_tokens,
                "total_tokens": answer.num_prompt_tokens + num_tokens,
            },
        }

    def events(self, response: dict[str, Any]) -> Iterator[bytes]:
        """The chunks of each reply: its role, thinking, text, and calls; then the end."""
        head = {name: response[name] for name in ("id", "created", "model")} | {"object": "chat.completion.chunk"}
        usage = {"usage": None} if self._includes_usage else {}
        for choice in response["choices"]:
            for delta, logprobs, end in _deltas(choice):
                chunk = {"index": choice["index"], "delta": delta, "logprobs": logprobs, "finish_reason": end}
                yield event({**head, "choices": [chunk], **usage})
        if self._includes_usage:
            yield event({**head, "choices": [], "usage": response["usage"]})
        yield b"data: [DONE]\n\n"


def _message(fields: Fields) -> Message:
    role = fields.choice("role", _ROLES)
    if role == "assistant":
        content = fields.content("content", _text, "") or fields.text("refusal") or ""
        reasoning = fields.text("reasoning_content") or fields.text("reasoning") or ""
        return assistant_message(str(content), reasoning, [_call(call) for call in fields.objects("tool_calls")])
    if fields.values.get("content") is None:
        fields.refuse("content", "is missing: give a text or a list of parts")
    content = fields.content("content", _part)
    if role == "tool":
        return {"role": "tool", "content": content, "tool_call_id": fields.required_text("tool_call_id")}
    return {"role": "system" if role == "developer" else role, "content": content}


def _text(fields: Fields) -> Part:
    """A part of an assistant's message, which says, thinks or refuses something."""
    kind = fields.choice("type", ("text", "refusal"))
    return text_part(fields.required_text(kind))


def _part(fields: Fields) -> Part:
    if fields.choice("type", ("text", "image_url")) == "text":
        return text_part(fields.required_text("text"))
    return image_part(fields.required_object("image_url").required_text("url"))


def _call(fields: Fields) -> dict[str, Any]:
    function = fields.required_object("function")
    name, arguments = function.required_text("name"), function.text("arguments") or ""
    return function_call(CalledTool(fields.required_text("id"), name, arguments))


def _tool(fields: Fields) -> dict[str, Any]:
    fields.choice("type", ("function",))
    function = fields.required_object("function")
    parameters = function.object("parameters")
    return function_tool(function.required_text("name"), function.text("description"), parameters)


def _tool_choice(fields: Fields) -> tuple[ToolChoice, str | None]:
    """The choice, and the name of the one tool that has to be called."""
    if isinstance(fields.values.get("tool_choice"), dict):
        given = fields.required_object("tool_choice")
        given.choice("type", ("function",))
        return "required", given.required_object("function").required_text("name")
    return plain_tool_choice(fields), None


def plain_tool_choice(fields: Fields) -> ToolChoice:
    """A choice of OpenAI's APIs that names no tool."""
    if fields.values.get("tool_choice") is None:
        return "auto"
    choice = fields.choice("tool_choice", ("auto", "none", "required"))
    return "none" if choice == "none" else "required" if choice == "required" else "auto"


def _choice(place: int, reply: ModelReply) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": reply.content, "refusal": None}
    if reply.reasoning:
        message["reasoning_content"] = reply.reasoning
    if reply.tool_calls:
        message["content"] = reply.content or None
        message["tool_calls"] = [function_call(call) for call in reply.tool_calls]
    logprobs = None if reply.logprobs is None else {"content": token_logprobs(reply), "refusal": None}
    return {"index": place, "message": message, "logprobs": logprobs, "finish_reason": reply.end}


def _deltas(choice: dict[str, Any]) -> Iterator[tuple[dict[str, Any], Any, str | None]]:
    """What each chunk adds, with its log-probabilities, and the end."""
    message = choice["message"]
    yield {"role": "assistant", "content": ""}, None, None
    if "reasoning_content" in message:
        yield {"reasoning_content": message["reasoning_content"]}, None, None
    if message["content"]:
        yield {"content": message["content"]}, None, None
    for place, call in enumerate(message.get("tool_calls", ())):
        yield {"tool_calls": [{"index": place, **call}]}, None, None
    yield {}, choice["logprobs"], choice["finish_reason"]
