"""JSON requests to a language model's service, with retries and errors that name a remedy."""

import asyncio
import ssl
from collections.abc import Mapping
from functools import cache
from typing import TYPE_CHECKING, Any

from openenv.core.errors import OpenEnvError

if TYPE_CHECKING:
    import httpx

_TRIES = 3
_LONGEST_WAIT_S = 30.0
_RETRIED_STATUSES = {408, 409, 429}
"""Statuses that are retried, besides those from 500."""
_REMEDIES = {
    401: "give a valid api_key",
    403: "the api_key may not use this model: give another, or another model",
    404: "no such model or path: check endpoint and model",
    408: "the service timed out: try again later",
    413: "the prompt is too long: shorten it",
    429: "too many requests: send fewer at the same time, or raise the quota",
}


class LLMError(OpenEnvError):
    """A language model's service refused a request, was unreachable, or returned an unexpected response.

    `status` is the HTTP status, or None without a response.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


async def post_json(
    url: str, body: dict[str, Any], headers: Mapping[str, str], *, timeout_s: float, secret: str | None = None
) -> dict[str, Any]:
    """Send a POST request and return the JSON object of the response. Overload and failures are retried twice.

    timeout_s: for each try. secret: removed from errors, also where the service repeats it.
    Raises LLMError with the status and a remedy.
    """
    import httpx  # keeps `import openenv` light

    from openenv.core.net.http_clients import async_http_client  # likewise

    # A client for each request: it is bound to no event loop, and nothing has to be closed.
    async with async_http_client(url, timeout=None, verify=_certificates()) as http:
        for tries_left in reversed(range(_TRIES)):
            try:
                async with asyncio.timeout(timeout_s):
                    response = await http.post(url, json=body, headers=dict(headers))
            except TimeoutError:
                raise LLMError(
                    f"{url} did not respond within {timeout_s} s: raise timeout_s, or request less"
                ) from None
            except httpx.HTTPError as error:
                reason = _without(secret, str(error) or type(error).__name__)
                raise LLMError(f"{url} cannot be reached ({reason}): start the service, or correct endpoint") from None
            if not tries_left or not _is_retried(response.status_code):
                break
            await asyncio.sleep(_wait_s(response, _TRIES - tries_left))
    return _object(url, response, secret)


def _is_retried(status: int) -> bool:
    return status in _RETRIED_STATUSES or status >= 500


def _wait_s(response: "httpx.Response", tries: int) -> float:
    """The service's retry-after, else half a second, doubled with each try."""
    try:
        asked = float(response.headers.get("retry-after", ""))
    except ValueError:
        asked = 0.25 * 2.0**tries
    return min(max(asked, 0.0), _LONGEST_WAIT_S)


def _object(url: str, response: "httpx.Response", secret: str | None) -> dict[str, Any]:
    if not response.is_success:
        status = response.status_code
        remedy = _REMEDIES.get(status, "the service failed: try again later" if status >= 500 else "change the request")
        raise LLMError(f"{url} returned {status}: {remedy}. Response: {_without(secret, response.text)[:500]}", status)
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise unexpected(url, response.text, secret)
    return answer


def unexpected(url: str, answer: object, secret: str | None) -> LLMError:
    """The error for a response that does not match the API."""
    text = _without(secret, str(answer))[:500]
    return LLMError(f"{url} returned a response that does not match its API: check endpoint. Response: {text}")


def _without(secret: str | None, text: str) -> str:
    return text.replace(secret, "***") if secret else text


@cache
def _certificates() -> ssl.SSLContext:
    """Cached: loading the certificates blocks the event loop for tens of milliseconds."""
    import httpx

    return httpx.create_ssl_context()
