"""What an agent's program asks its language model, and the answer, whatever API it speaks."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from openenv.core.errors import OpenEnvError

EndReason = Literal["stop", "tool_calls", "length", "content_filter"]
ToolChoice = Literal["auto", "none", "required"]
Message = Mapping[str, Any]


class RequestRefused(OpenEnvError):
    """A request that is not answered. The program receives its API's error with the status and the reason."""

    def __init__(
        self, message: str, *, status: int = 400, field_name: str | None = None, code: str | None = None
    ) -> None:
        """Set what the program receives.

        Args:
            status: of the HTTP response, from 400.
            field_name: that of the request at fault, such as temperature.
            code: OpenAI's, which programs compare, such as context_length_exceeded.
        """
        super().__init__(message)
        self.status = status
        self.field_name = field_name
        self.code = code


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One call of the model."""

    messages: tuple[Message, ...]
    """As Chat Completions has them. Role: system, user, assistant or tool. Content: a text, or parts of type text and
    image_url. An assistant may have `tool_calls` and `reasoning_content`, a tool has a `tool_call_id`."""
    tools: tuple[Mapping[str, Any], ...] = ()
    """Functions: `name`, `description` and `parameters`, a JSON schema."""
    tool_choice: ToolChoice = "auto"
    named_tool: str | None = None
    """The one that has to be called, where `tool_choice` is required; None where the model chooses among them."""
    allows_parallel_calls: bool = True
    """Whether a reply may call several tools."""
    reply_schema: Mapping[str, Any] | None = None
    """The JSON schema of the reply; None for any text."""
    num_replies: int = 1
    max_tokens: int | None = None
    """Of a reply; None: the model's limit."""
    stop: tuple[str, ...] = ()
    """Texts before which a reply ends."""
    sampling: Mapping[str, float] = field(default_factory=dict)
    """What the program asks of the draws, by the name in Chat Completions: temperature, top_p, top_k, min_p,
    presence_penalty, frequency_penalty, seed. Only what it has given."""
    wants_logprobs: bool = False
    is_retry: bool = False
    """Whether the client repeats a call whose answer has not reached it (the header `x-stainless-retry-count` of the
    clients of OpenAI and Anthropic)."""


@dataclass(frozen=True, slots=True)
class CalledTool:
    """A call that the model has written."""

    id: str
    name: str
    arguments: str
    """JSON, or what the model has written instead."""


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One reply."""

    content: str
    """What the model says, without its thinking and its calls."""
    reasoning: str = ""
    tool_calls: tuple[CalledTool, ...] = ()
    end: EndReason = "stop"
    stopped_by: str | None = None
    """The text of the request's `stop` that ended the reply; None where the model ended it itself."""
    num_tokens: int = 0
    logprobs: tuple[tuple[str, float], ...] | None = None
    """Text and natural log-probability of each token; None where the request does not want them."""


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """The replies to a request."""

    replies: tuple[ModelReply, ...]
    num_prompt_tokens: int = 0


class AnswersRequests(Protocol):
    """A model that answers the calls of one episode, which may come at the same time."""

    async def answer(self, request: ModelRequest) -> ModelAnswer:
        """Answer a call. Raises RequestRefused for one that cannot be answered."""
        ...


def meaning(message: Message) -> list[Any]:
    """What a message says, however a program sends it back: ids of calls, white space at the ends and the form of parts
    may be others, and thinking may be left out."""
    content = message.get("content") or ""
    if not isinstance(content, str) and all(part["type"] == "text" for part in content):
        content = "".join(part["text"] for part in content)
    calls = [[call["function"]["name"], arguments_of(call)] for call in message.get("tool_calls") or ()]
    return [message["role"], content.strip() if isinstance(content, str) else content, calls]


def arguments_of(call: Message) -> Any:
    """The arguments of a call of the OpenAI API: an object, or the text that is none."""
    written = call["function"]["arguments"]
    try:
        found = json.loads(written) if isinstance(written, str) else written
    except (ValueError, RecursionError):
        return written
    return found if isinstance(found, dict) else written
