"""One JSON request to a language model's service: tried again where that helps, and named where it fails."""

import asyncio
import ssl
from collections.abc import Mapping
from functools import cache
from typing import Any

import httpx

from openenv.core.errors import OpenEnvError

_TRIES = 3
_LONGEST_WAIT_S = 30.0
_WORTH_ANOTHER_TRY = {408, 409, 429}
"""Statuses that pass by themselves, beside those from 500 on."""
_REMEDIES = {
    401: "give a valid api_key",
    403: "the api_key may not use this model: give another, or another model",
    404: "no such model or path: check endpoint and model",
    408: "the service gave up waiting: try again later",
    413: "the prompt is too long: shorten it",
    429: "asked too often: send fewer requests at one time, or raise the quota",
}


class LLMError(OpenEnvError):
    """A language model's service refused a request, could not be reached, or answered in another form.

    `status` is the HTTP status, or None when there was no answer.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


async def post_json(
    url: str, body: dict[str, Any], headers: Mapping[str, str], *, timeout_s: float, secret: str | None = None
) -> dict[str, Any]:
    """The JSON object that `url` answers. A crowded or failing service is asked up to three times.

    timeout_s: for each try. secret: never repeated in an error, even where the service does so.
    Raises LLMError with the status and what to do about it.
    """
    # A client for each request: it then belongs to no event loop, and there is nothing to close.
    async with httpx.AsyncClient(timeout=None, verify=_certificates()) as http:
        for tries_left in reversed(range(_TRIES)):
            try:
                async with asyncio.timeout(timeout_s):
                    response = await http.post(url, json=body, headers=dict(headers))
            except TimeoutError:
                raise LLMError(f"{url} did not answer within {timeout_s} s: raise timeout_s, or ask for less") from None
            except httpx.HTTPError as error:
                reason = _without(secret, str(error) or type(error).__name__)
                raise LLMError(f"{url} cannot be reached ({reason}): start the service, or correct endpoint") from None
            if not tries_left or not _may_pass(response.status_code):
                break
            await asyncio.sleep(_wait_s(response, _TRIES - tries_left))
    return _object(url, response, secret)


def _may_pass(status: int) -> bool:
    return status in _WORTH_ANOTHER_TRY or status >= 500


def _wait_s(response: httpx.Response, tries: int) -> float:
    """What the service asks for, else half a second, doubled with each try."""
    try:
        asked = float(response.headers.get("retry-after", ""))
    except ValueError:
        asked = 0.25 * 2.0**tries
    return min(max(asked, 0.0), _LONGEST_WAIT_S)


def _object(url: str, response: httpx.Response, secret: str | None) -> dict[str, Any]:
    if not response.is_success:
        status = response.status_code
        remedy = _REMEDIES.get(status, "the service failed: try again later" if status >= 500 else "change the request")
        raise LLMError(f"{url} answered {status}: {remedy}. It says: {_without(secret, response.text)[:500]}", status)
    try:
        answer = response.json()
    except ValueError:
        answer = None
    if not isinstance(answer, dict):
        raise unexpected(url, response.text, secret)
    return answer


def unexpected(url: str, answer: object, secret: str | None) -> LLMError:
    """The error for an answer that is not in the form of the API that was asked."""
    text = _without(secret, str(answer))[:500]
    return LLMError(f"{url} answered in another form than its API has: check endpoint. It says: {text}")


def _without(secret: str | None, text: str) -> str:
    return text.replace(secret, "***") if secret else text


@cache
def _certificates() -> ssl.SSLContext:
    """Reading the certificates takes tens of milliseconds, in which an event loop would stand still."""
    return httpx.create_ssl_context()
