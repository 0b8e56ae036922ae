"""A model of a provider, or of a server such as vLLM, behind the endpoint."""

from dataclasses import replace
from typing import Any, Self

import httpx

from openenv.agents.endpoint.requests import (
    CalledTool,
    EndReason,
    ModelAnswer,
    ModelReply,
    ModelRequest,
    RequestRefused,
)
from openenv.agents.llm.client import needs_max_completion_tokens
from openenv.agents.llm.http import LLMError, post_json, unexpected
from openenv.agents.llm.messages import UnexpectedContent, content_text, whole_characters
from openenv.core.net.http_clients import async_http_client
from openenv.core.utils import check_type

_OF_THE_REQUEST = (400, 413, 422, 429)
"""Statuses of errors that a program causes. Others are between the endpoint and the service."""
_ENDS: dict[str, EndReason] = {"tool_calls": "tool_calls", "length": "length", "content_filter": "content_filter"}
_MAX_CONNECTIONS = 1000


class UpstreamModel:
    """Answers the calls of any number of episodes by a service with Chat Completions: vLLM, OpenAI, and others.

    The key stays here: programs see that of their episode only. Use it in `async with`.
    """

    def __init__(self, base_url: str, model: str, api_key: str | None = None, *, timeout_s: float = 600.0) -> None:
        """Set the service.

        Args:
            base_url: as OpenAI's clients take it, such as http://localhost:8000/v1.
            model: whatever model a program names, this one answers.
            timeout_s: for each of at most three tries.
        """
        check_type("base_url", base_url, str, "a URL such as http://localhost:8000/v1")
        check_type("model", model, str, "the name of a model")
        check_type("api_key", api_key, str, "the key as a text", optional=True)
        self._url = f"{base_url.rstrip('/')}/chat/completions"
        self._model = model
        self._api_key = api_key
        self._timeout_s = timeout_s
        self._http: httpx.AsyncClient | None = None

    async def __aenter__(self) -> Self:
        """Open the connections, which all calls share."""
        self._http = async_http_client(self._url, timeout=None, limits=httpx.Limits(max_connections=_MAX_CONNECTIONS))
        return self

    async def __aexit__(self, *_: object) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def answer(self, request: ModelRequest) -> ModelAnswer:
        """The service's answer. Raises RequestRefused with the service's reason."""
        if self._http is None:
            raise RuntimeError("the model is not open: use it in `async with`")
        headers = {"Authorization": f"Bearer {self._api_key}"} if self._api_key else {}
        try:
            answer = await post_json(
                self._url, chat_body(request, self._model), headers,
                timeout_s=self._timeout_s, secret=self._api_key, http=self._http,
            )  # fmt: skip
            return answer_of(answer, self._url, self._api_key)
        except LLMError as error:
            status = error.status if error.status in _OF_THE_REQUEST else 502
            raise RequestRefused(f"the model's service failed: {error}", status=status) from error


def chat_body(request: ModelRequest, model: str) -> dict[str, Any]:
    """A call as the body of a request of Chat Completions. model: the name by which the service knows it."""
    limit = "max_completion_tokens" if needs_max_completion_tokens(model) else "max_tokens"
    body: dict[str, Any] = {"model": model, "messages": list(request.messages), **request.sampling}
    if request.tools:
        body["tools"] = [{"type": "function", "function": tool} for tool in request.tools]
        named = {"type": "function", "function": {"name": request.named_tool}}
        body["tool_choice"] = request.tool_choice if request.named_tool is None else named
        if not request.allows_parallel_calls:
            body["parallel_tool_calls"] = False
    if request.reply_schema is not None:
        schema = {"name": "reply", "schema": request.reply_schema}
        body["response_format"] = {"type": "json_schema", "json_schema": schema}
    if request.max_tokens is not None:
        body[limit] = request.max_tokens
    if request.stop:
        body["stop"] = list(request.stop)
    if request.num_replies > 1:
        body["n"] = request.num_replies
    if request.wants_logprobs:
        body["logprobs"] = True
    return body


def answer_of(response: dict[str, Any], url: str, secret: str | None = None) -> ModelAnswer:
    """A response of Chat Completions as the answer to a call. Raises LLMError for another body."""
    usage = response.get("usage") or {}
    try:
        replies = [_reply(choice) for choice in response["choices"]]
        # the service counts the tokens of all replies together
        replies[0] = replace(replies[0], num_tokens=usage.get("completion_tokens") or 0)
        return ModelAnswer(tuple(replies), usage.get("prompt_tokens") or 0)
    except (UnexpectedContent, KeyError, IndexError, TypeError, AttributeError):
        raise unexpected(url, response, secret) from None


def without_logprobs(answer: ModelAnswer) -> ModelAnswer:
    """An answer to a program that has not asked for log-probabilities."""
    return replace(answer, replies=tuple(replace(reply, logprobs=None) for reply in answer.replies))


def _reply(choice: dict[str, Any]) -> ModelReply:
    message, logprobs = choice["message"], choice.get("logprobs")
    stopped_by = choice.get("stop_reason")  # vLLM's: a text, or the id of a token
    return ModelReply(
        content=content_text(message.get("content")),
        reasoning=whole_characters(message.get("reasoning_content") or message.get("reasoning") or ""),
        tool_calls=tuple(_called(place, call) for place, call in enumerate(message.get("tool_calls") or ())),
        end=_ENDS.get(choice.get("finish_reason") or "", "stop"),
        stopped_by=stopped_by if isinstance(stopped_by, str) else None,
        logprobs=tuple((token["token"], token["logprob"]) for token in logprobs["content"]) if logprobs else None,
    )


def _called(place: int, call: dict[str, Any]) -> CalledTool:
    function = call["function"]
    arguments = whole_characters(function.get("arguments") or "")
    return CalledTool(call.get("id") or f"call_{place}", function["name"], arguments)
