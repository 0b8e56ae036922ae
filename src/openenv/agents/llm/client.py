"""HTTP clients of language models: OpenAI-compatible services and Anthropic."""

import json
from abc import ABC, abstractmethod
from numbers import Integral, Real
from typing import Any
from urllib.parse import urlsplit, urlunsplit

from openenv.agents.llm.http import LLMError, post_json, unexpected
from openenv.agents.llm.messages import (
    LLMResponse,
    TokenUsage,
    ToolCall,
    UnexpectedContent,
    anthropic_messages,
    anthropic_tools,
    content_text,
    openai_tools,
    whole_characters,
)
from openenv.core.utils import check_type

__all__ = [
    "AnthropicClient",
    "LLMClient",
    "LLMError",
    "LLMResponse",
    "OpenAIClient",
    "TokenUsage",
    "ToolCall",
    "UnreadableToolCall",
    "create_llm_client",
    "needs_max_completion_tokens",
]


class UnreadableToolCall(LLMError):
    """The model called a tool with arguments that are no JSON object."""

    def __init__(self, name: str, arguments: str, usage: TokenUsage | None, *, is_cut_off: bool = False) -> None:
        super().__init__(
            f"the model called {name} with arguments that are not JSON: try again, or raise max_tokens if they "
            f"were cut short. Arguments: {arguments[:300]}"
        )
        self.name = name
        self.arguments = arguments
        self.usage = usage
        self.is_cut_off = is_cut_off


class LLMClient(ABC):
    """A language model that completes prompts. Implement `complete` for another kind of model."""

    def __init__(self, endpoint: str, port: int | None) -> None:
        """endpoint: an http(s) URL, perhaps with port and path. port: if the URL has none."""
        self.endpoint = endpoint
        self.port = port

    @abstractmethod
    async def complete(self, prompt: str, **kwargs: Any) -> str:
        """The model's response to `prompt`. kwargs: parameters of this request, such as temperature or max_tokens."""

    async def complete_with_tools(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], **kwargs: Any
    ) -> LLMResponse:
        """The model's response to a conversation in which it may call tools.

        messages: in the format of the OpenAI API. tools: as MCP defines them. Raises NotImplementedError if the client
        does not support tools.
        """
        raise NotImplementedError(f"{type(self).__name__} does not support tools: implement complete_with_tools")

    @property
    def base_url(self) -> str:
        """The endpoint with its port, without a trailing slash. Raises ValueError for an invalid URL."""
        return _joined(self.endpoint, self.port)


class _HostedClient(LLMClient):
    """Base class of the clients below: request parameters and sending."""

    def __init__(
        self,
        endpoint: str,
        port: int | None,
        model: str,
        api_key: str | None = None,
        system_prompt: str | None = None,
        temperature: float = 0.0,
        max_tokens: int = 256,
        *,
        timeout_s: float = 120.0,
    ) -> None:
        """Set the model and the default parameters of requests.

        Args:
            endpoint: an http(s) URL, perhaps with port and path, without credentials or query.
            port: if the URL has none.
            system_prompt: used in conversations without a system message.
            temperature: 0 for the most likely response.
            max_tokens: of the response.
            timeout_s: for each try.

        Raises:
            ValueError: for an invalid endpoint.
        """
        check_type("endpoint", endpoint, str, "a URL such as http://localhost:8000")
        check_type("port", port, Integral, "a number from 1 to 65535", optional=True)
        check_type("model", model, str, "the name of a model")
        check_type("api_key", api_key, str, "the key as a text", optional=True)
        check_type("timeout_s", timeout_s, Real, "seconds above 0")
        super().__init__(endpoint, port)
        self.model = model
        self.system_prompt = system_prompt
        self.temperature = temperature
        self.max_tokens = max_tokens
        self.timeout_s = timeout_s
        self._api_key = api_key
        self._url = self._request_url(self.base_url)

    async def complete(self, prompt: str, **kwargs: Any) -> str:
        """The model's response to `prompt`. kwargs: further parameters of the API. Raises LLMError."""
        return (await self.complete_with_tools([{"role": "user", "content": prompt}], [], **kwargs)).content

    async def complete_with_tools(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], **kwargs: Any
    ) -> LLMResponse:
        """The model's response to a conversation of OpenAI messages, with MCP tools. Raises LLMError."""
        parameters = {"max_tokens": self.max_tokens, "temperature": self.temperature, **kwargs}
        body = {"model": self.model, **self._request(messages, tools, parameters)}
        headers = self._headers(self._api_key) if self._api_key else self._headers("")
        answer = await post_json(self._url, body, headers, timeout_s=self.timeout_s, secret=self._api_key)
        try:
            return self._response(answer)
        except UnexpectedContent as error:
            raise LLMError(f"{self._url} returned {error}") from None
        except (KeyError, IndexError, TypeError, AttributeError, ValueError):
            raise unexpected(self._url, answer, self._api_key) from None

    @abstractmethod
    def _request_url(self, base_url: str) -> str:
        """URL of requests."""

    @abstractmethod
    def _headers(self, api_key: str) -> dict[str, str]:
        """Headers of a request; `api_key` is empty if there is none."""

    @abstractmethod
    def _request(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], parameters: dict[str, Any]
    ) -> dict[str, Any]:
        """The body of a request."""

    @abstractmethod
    def _response(self, answer: dict[str, Any]) -> LLMResponse:
        """Parse the body of a response."""


class OpenAIClient(_HostedClient):
    """A model behind the chat completions of OpenAI, vLLM, TGI, Ollama, or another service that speaks them.

    `/v1` is appended to an endpoint without a path; one with a path is not changed.
    """

    def __init__(
        self,
        endpoint: str,
        port: int | None,
        model: str,
        api_key: str | None = None,
        system_prompt: str | None = None,
        temperature: float = 0.0,
        max_tokens: int = 256,
        use_max_completion_tokens: bool = False,
        *,
        timeout_s: float = 120.0,
    ) -> None:
        """use_max_completion_tokens: for OpenAI's reasoning models, which use this name and no temperature."""
        super().__init__(endpoint, port, model, api_key, system_prompt, temperature, max_tokens, timeout_s=timeout_s)
        self.use_max_completion_tokens = use_max_completion_tokens

    def _request_url(self, base_url: str) -> str:
        prefix = "" if urlsplit(base_url).path else "/v1"
        return f"{base_url}{prefix}/chat/completions"

    def _headers(self, api_key: str) -> dict[str, str]:
        return {"Authorization": f"Bearer {api_key}"} if api_key else {}

    def _request(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], parameters: dict[str, Any]
    ) -> dict[str, Any]:
        if self.use_max_completion_tokens:
            parameters["max_completion_tokens"] = parameters.pop("max_tokens")
            del parameters["temperature"]
        if self.system_prompt and not any(message["role"] == "system" for message in messages):
            messages = [{"role": "system", "content": self.system_prompt}, *messages]
        return {"messages": messages, **({"tools": openai_tools(tools)} if tools else {}), **parameters}

    def _response(self, answer: dict[str, Any]) -> LLMResponse:
        choice, usage = answer["choices"][0], _usage(answer, "prompt_tokens", "completion_tokens")
        if choice.get("finish_reason") == "content_filter":
            raise LLMError(f"{self._url} returned no whole reply: the service's content filter stopped it", 400)
        message, is_cut_off = choice["message"], choice.get("finish_reason") == "length"
        called = message.get("tool_calls") or []
        calls = [
            _tool_call(call.get("id") or f"call_{place}", call["function"], usage, is_cut_off=is_cut_off)
            for place, call in enumerate(called)
        ]
        return LLMResponse(content_text(message.get("content")), calls, usage, is_cut_off)


class AnthropicClient(_HostedClient):
    """A model behind Anthropic's Messages API."""

    def _request_url(self, base_url: str) -> str:
        return f"{base_url}/v1/messages"

    def _headers(self, api_key: str) -> dict[str, str]:
        return {"anthropic-version": "2023-06-01", **({"x-api-key": api_key} if api_key else {})}

    def _request(
        self, messages: list[dict[str, Any]], tools: list[dict[str, Any]], parameters: dict[str, Any]
    ) -> dict[str, Any]:
        own_system, converted = anthropic_messages(messages)
        system = own_system or self.system_prompt
        return {
            "messages": converted,
            **({"system": system} if system else {}),
            **({"tools": anthropic_tools(tools)} if tools else {}),
            **parameters,
        }

    def _response(self, answer: dict[str, Any]) -> LLMResponse:
        blocks = answer["content"]
        text = whole_characters("".join(block["text"] for block in blocks if block["type"] == "text"))
        calls = [ToolCall(b["id"], b["name"], b["input"]) for b in blocks if b["type"] == "tool_use"]
        is_cut_off = answer.get("stop_reason") == "max_tokens"
        return LLMResponse(text, calls, _usage(answer, "input_tokens", "output_tokens"), is_cut_off)


_HOSTED: dict[str, tuple[str, type[_HostedClient]]] = {
    "openai": ("https://api.openai.com", OpenAIClient),
    "anthropic": ("https://api.anthropic.com", AnthropicClient),
}
_REASONING_MODELS = ("gpt-5", "o1", "o3", "o4")
"""Name prefixes of OpenAI models that require max_completion_tokens and no temperature."""


def create_llm_client(
    provider: str,
    model: str,
    api_key: str,
    *,
    system_prompt: str | None = None,
    temperature: float = 0.0,
    max_tokens: int = 4096,
) -> LLMClient:
    """Create a client of a model that `openai` or `anthropic` hosts. Raises ValueError for another provider."""
    if provider.lower() not in _HOSTED:
        raise ValueError(f"provider={provider!r}: there is {' and '.join(_HOSTED)}. For others use OpenAIClient(url).")
    endpoint, cls = _HOSTED[provider.lower()]
    client = cls(endpoint, 443, model, api_key, system_prompt, temperature, max_tokens)
    if isinstance(client, OpenAIClient):
        client.use_max_completion_tokens = needs_max_completion_tokens(model)
    return client


def needs_max_completion_tokens(model: str) -> bool:
    """Whether a model of OpenAI takes `max_completion_tokens`, and no temperature."""
    return model.startswith(_REASONING_MODELS)


def _tool_call(call_id: str, function: dict[str, Any], usage: TokenUsage | None, *, is_cut_off: bool) -> ToolCall:
    """A call with its arguments, which some services send as an object, or leave out where there are none."""
    name, arguments = function["name"], function.get("arguments") or "{}"
    try:
        read = arguments if isinstance(arguments, dict) else json.loads(whole_characters(arguments))
    except (ValueError, RecursionError):
        read = None
    if not isinstance(read, dict):
        raise UnreadableToolCall(name, arguments, usage, is_cut_off=is_cut_off)
    return ToolCall(call_id, name, read)


def _usage(answer: dict[str, Any], prompt: str, completion: str) -> TokenUsage | None:
    """The counted tokens, by the API's names of the two numbers; None where the service does not give both."""
    counted = answer.get("usage")
    sent, received = (counted.get(prompt), counted.get(completion)) if isinstance(counted, dict) else (None, None)
    return TokenUsage(sent, received) if isinstance(sent, int) and isinstance(received, int) else None


def _joined(endpoint: str, port: int | None) -> str:
    try:
        parts = urlsplit(endpoint)
        own_port = parts.port
    except ValueError:  # not the error's text, which may contain a password
        raise _no_endpoint(endpoint, "it is not a URL with a port from 1 to 65535") from None
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise _no_endpoint(endpoint, "it must begin with http:// or https:// and a host")
    if parts.username is not None or parts.password is not None:
        raise _no_endpoint(endpoint, "it must not contain a user or password. Give api_key")
    if parts.query or parts.fragment:
        raise _no_endpoint(endpoint, "it must not contain a query or fragment")
    if port is not None and own_port not in (None, port):
        raise _no_endpoint(endpoint, f"it names port {own_port}, and port={port} another. Give one of them")
    if port is not None and not 1 <= port <= 65535:
        raise _no_endpoint(endpoint, f"port={port} is not from 1 to 65535")
    address = parts.netloc.rstrip(":") if own_port or port is None else f"{parts.netloc.rstrip(':')}:{port}"
    return urlunsplit(parts._replace(netloc=address, path=parts.path.rstrip("/")))


def _no_endpoint(endpoint: str, reason: str) -> ValueError:
    return ValueError(f"endpoint={_without_user(endpoint)!r}: {reason}")


def _without_user(endpoint: str) -> str:
    """`endpoint` without the part before an @, which may be secret."""
    scheme, separator, rest = endpoint.rpartition("://")
    return f"{scheme}{separator}***@{rest.rpartition('@')[2]}" if "@" in rest else endpoint
