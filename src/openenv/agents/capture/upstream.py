"""The engine behind captured calls: how it is asked for its tokens, and what its replies are drawn from in training."""

import math
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

import httpx

from openenv.agents.llm.http import LLMError, LLMTimeout, post_json
from openenv.core.errors import OpenEnvError
from openenv.core.net.http_clients import async_http_client

CAPTURE_LEVELS = ("tokens", "logprobs", "text")
"""What engines return, the most first."""
NON_POLICY_SAMPLING: dict[str, float | int] = {
    "top_p": 1.0,
    "top_k": -1,
    "min_p": 0.0,
    "frequency_penalty": 0.0,
    "presence_penalty": 0.0,
    "repetition_penalty": 1.0,
}
"""Each parameter of sampling but the temperature, with the value that leaves the model's distribution as it is."""
_TIMEOUT_S = 900.0
_PROVIDERS = ("openai", "hf", "vllm")


class UpstreamError(OpenEnvError, RuntimeError):
    """An engine has failed."""


class UpstreamRequestError(UpstreamError):
    """The engine has no way to answer such a request."""


class UpstreamHTTPError(UpstreamError):
    """An engine has answered with an error's status."""

    def __init__(self, status_code: int, body: dict[str, Any] | str | None = None) -> None:
        super().__init__(f"the engine returned {status_code}: {body}")
        self.status_code = status_code
        self.body = body


class UpstreamTimeoutError(UpstreamError):
    """An engine has not answered in time."""


class UpstreamTransportError(UpstreamError):
    """An engine cannot be reached, or its answer cannot be read."""


class InferenceClient:
    """Calls an engine that speaks Chat Completions, and has it return its tokens. `aclose` ends its connections."""

    def __init__(
        self,
        base_url: str,
        *,
        served_model: str | None = None,
        api_key: str | None = None,
        auth_header: str = "Authorization",
        capture_level: str = "tokens",
        provider: str = "openai",
    ) -> None:
        """Set the engine.

        Args:
            base_url: http://HOST:PORT, or an address with a path such as .../v1.
            served_model: whatever model a request names, this one answers; None: the one that it names.
            auth_header: the header that has the key.
            capture_level: what the engine returns: tokens, logprobs, or text.

        Raises:
            ValueError: for another provider than openai, hf and vllm.
        """
        if provider not in _PROVIDERS:
            raise ValueError(f"provider={provider!r}: engines that speak Chat Completions are {', '.join(_PROVIDERS)}")
        self.provider = provider
        self.base_url = openai_api_base(base_url)
        self.served_model = served_model
        self.api_key = api_key or None
        self.auth_header = auth_header
        self.capture_level = capture_level
        self._http: httpx.AsyncClient | None = None

    async def aclose(self) -> None:
        """Close the connections."""
        if self._http is not None:
            await self._http.aclose()
            self._http = None

    async def completion(self, request: dict[str, Any]) -> dict[str, Any]:
        """The engine's answer to a request of Chat Completions, which is not streamed. Raises UpstreamError."""
        body = prepare_request(dict(request), served_model=self.served_model, capture_level=self.capture_level)
        url, headers = f"{self.base_url}/chat/completions", auth_headers(self.api_key, self.auth_header)
        try:
            answer = await post_json(
                url, body, headers, timeout_s=_TIMEOUT_S, secret=self.api_key, http=self._client(url)
            )
        except LLMTimeout as error:
            raise UpstreamTimeoutError(str(error)) from error
        except LLMError as error:
            known = error.status is not None
            raise (
                UpstreamHTTPError(error.status or 0, str(error)) if known else UpstreamTransportError(str(error))
            ) from error
        return normalize_response(answer)

    async def list_models(self) -> dict[str, Any]:
        """The engine's models. Raises UpstreamError."""
        url = f"{self.base_url}/models"
        try:
            found = await self._client(url).get(url, headers=auth_headers(self.api_key, self.auth_header))
        except httpx.HTTPError as error:
            raise UpstreamTransportError(f"{url} cannot be reached ({error}): start the engine") from error
        if not found.is_success:
            raise UpstreamHTTPError(found.status_code, found.text[:500])
        models: dict[str, Any] = found.json()
        return models

    def _client(self, url: str) -> httpx.AsyncClient:
        if self._http is None:
            self._http = async_http_client(url, timeout=30.0, limits=httpx.Limits(max_connections=None))
        return self._http


def training_sampling(sampling: dict[str, Any] | None) -> dict[str, float | int]:
    """How replies are drawn in training: from the model's whole distribution at a temperature.

    sampling: the temperature, above 0, and perhaps other parameters with the values of NON_POLICY_SAMPLING; None: not
    set, which returns an empty dictionary. A trainer computes log-probabilities over all tokens, and could not do so
    for replies of a part of the distribution. Raises ValueError, which names the parameter.
    """
    if sampling is None:
        return {}
    if not isinstance(sampling, dict):
        raise ValueError(f"sampling={sampling!r}: must be a dictionary of parameters")
    temperature = sampling.get("temperature")
    if type(temperature) not in (int, float) or not 0 < temperature < math.inf:  # type: ignore[operator]
        raise ValueError(f"sampling.temperature={temperature!r}: must be a number above 0")
    for name in sampling:
        if name != "temperature" and name not in NON_POLICY_SAMPLING:
            raise ValueError(f"sampling.{name} is not known: give temperature, {', '.join(NON_POLICY_SAMPLING)}")
    for name, value in truncating_params(sampling).items():
        raise ValueError(f"sampling.{name}={value!r}: replies that are trained need {NON_POLICY_SAMPLING[name]}")
    return {"temperature": float(temperature), **NON_POLICY_SAMPLING}  # type: ignore[arg-type]


def truncating_params(request: Mapping[str, Any]) -> dict[str, Any]:
    """The parameters of a request that change the model's distribution, apart from its temperature."""
    given = {name: request[name] for name in NON_POLICY_SAMPLING if request.get(name) is not None}
    if given.get("top_k") == 0:  # no limit either
        del given["top_k"]
    return {name: value for name, value in given.items() if value != NON_POLICY_SAMPLING[name]}


def prepare_request(
    request: dict[str, Any], *, served_model: str | None = None, capture_level: str = "tokens"
) -> dict[str, Any]:
    """Have a request return what the engine can: it is changed, and returned.

    At the level tokens it draws from the whole distribution, as its log-probabilities are those of what was drawn from.
    """
    if served_model:
        request["model"] = served_model
    if capture_level == "text":
        return request
    request |= {"logprobs": True, "top_logprobs": request.get("top_logprobs") or 0}  # vLLM's need a number
    if capture_level == "tokens":
        request |= {
            "return_token_ids": True,
            **{name: NON_POLICY_SAMPLING[name] for name in truncating_params(request)},
        }
    return request


def normalize_response(response: dict[str, Any]) -> dict[str, Any]:
    """Bring the responses of engines into one form: it is changed, and returned.

    `prompt_token_ids` stands at the top, also where the engine has it in each choice, and thinking is
    `reasoning_content`. A reply whose log-probabilities are those of other tokens loses them.
    """
    choices = [choice for choice in response.get("choices") or () if isinstance(choice, dict)]
    if choices and not response.get("prompt_token_ids") and choices[0].get("prompt_token_ids"):
        response["prompt_token_ids"] = choices[0]["prompt_token_ids"]
    for choice in choices:
        message = choice.get("message") or {}
        if message.get("reasoning") and not message.get("reasoning_content"):
            message["reasoning_content"] = message.pop("reasoning")
        content, ids = (choice.get("logprobs") or {}).get("content") or [], choice.get("token_ids") or []
        named = [str(entry.get("token")) for entry in content]
        if any(name.startswith("token_id:") and name != f"token_id:{token}" for name, token in zip(named, ids)):  # noqa: B905
            choice["logprobs"] = None
    return response


def auth_headers(api_key: str | None, header: str = "Authorization") -> dict[str, str]:
    """The header with a key; empty without one. Authorization has it as the bearer token."""
    if not api_key:
        return {}
    return {header: f"Bearer {api_key}" if header.lower() == "authorization" else api_key}


def normalise_engine_base(url: str) -> str:
    """An address without a slash and without /v1 at its end."""
    return url.rstrip("/").removesuffix("/v1")


def openai_api_base(url: str) -> str:
    """An address as OpenAI's clients take it: one without a path has /v1 added."""
    base = url.rstrip("/")
    return base if urlsplit(base).path else f"{base}/v1"
