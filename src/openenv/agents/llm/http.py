"""JSON requests to a language model's service, with retries and errors that name a remedy."""

import asyncio
import json
import math
import ssl
import time
from collections.abc import Mapping
from contextlib import nullcontext
from email.utils import parsedate_to_datetime
from functools import cache
from typing import TYPE_CHECKING, Any

from openenv.core.errors import MessageTooBig, OpenEnvError

if TYPE_CHECKING:
    import httpx

_TRIES = 3
_LONGEST_WAIT_S = 30.0
_MAX_BYTES = 64 << 20
"""Of one response."""
_RETRIED_STATUSES = {408, 409, 425, 429}
"""Statuses that are retried, besides those from 500."""
_REFUSALS = ("invalid", "content_filter", "content_policy", "context_length", "not_found", "auth", "permission")
"""Parts of the codes and types of errors that another try does not change."""
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

    `status` is the HTTP status, or the one that an error object under status 200 names; None without either.
    """

    def __init__(self, message: str, status: int | None = None) -> None:
        super().__init__(message)
        self.status = status


class LLMTimeout(LLMError):
    """A language model's service did not respond in time."""


async def post_json(
    url: str,
    body: dict[str, Any],
    headers: Mapping[str, str],
    *,
    timeout_s: float,
    secret: str | None = None,
    takes_text: bool = False,
    http: "httpx.AsyncClient | None" = None,
) -> dict[str, Any]:
    """Send a POST request and return the JSON object of the response.

    What may pass is retried twice: overload, failures of the service, broken connections, and bodies that are cut,
    empty or no JSON, as gateways send them.

    Args:
        timeout_s: for each try.
        secret: removed from errors, also where the service repeats it.
        takes_text: a success without JSON is an empty object.
        http: a client whose connections many requests share; None: one for this request, bound to no event loop, so
            that nothing has to be closed.

    Raises:
        LLMError: with the status and a remedy.
    """
    import httpx  # keeps `import openenv` light

    from openenv.core.net.http_clients import async_http_client, async_whole_response  # likewise

    own = async_http_client(url, timeout=None, verify=_certificates()) if http is None else nullcontext(http)
    async with own as http:
        tries = 0
        while True:
            tries, response = tries + 1, None
            try:
                response = await async_whole_response(
                    http, _MAX_BYTES, method="POST", url=url, json=body, headers=dict(headers),
                    timeout=httpx.Timeout(timeout_s, pool=None),
                )  # fmt: skip
            except MessageTooBig:
                raise LLMError(f"{url} returned more than {_MAX_BYTES >> 20} MiB: check endpoint") from None
            except httpx.TimeoutException:
                raise LLMTimeout(
                    f"{url} did not respond within {timeout_s} s: raise timeout_s, or request less"
                ) from None
            except httpx.HTTPError as error:
                if tries == _TRIES or not isinstance(error, _passing(httpx)):
                    reason = _without(secret, str(error) or type(error).__name__)
                    if isinstance(error, httpx.DecodingError):
                        raise LLMError(f"{url} returned a body that cannot be decoded ({reason}): try again") from None
                    remedy = "start the service, or correct endpoint"
                    raise LLMError(f"{url} cannot be reached ({reason}): {remedy}") from None
            else:
                answer = _object_of(response) or ({} if takes_text else None)
                if tries == _TRIES or not _may_pass(response.status_code, answer):
                    return _checked(url, response, answer, secret)
            await asyncio.sleep(_wait_s(response, tries))


def _passing(httpx: Any) -> tuple[type[Exception], ...]:
    """The errors of a connection after which the next try may succeed."""
    return (httpx.NetworkError, httpx.RemoteProtocolError, httpx.DecodingError)


def _may_pass(status: int, answer: dict[str, Any] | None) -> bool:
    """Whether the next try may succeed. An error object without a status is one of the service."""
    failed = _error_status(status, answer)
    if failed is None:
        return answer is None or ("choices" in answer and not answer["choices"])
    return failed in _RETRIED_STATUSES or failed >= 500


def _error_status(status: int, answer: dict[str, Any] | None) -> int | None:
    """The status of a failure; None for a success. Gateways send the failures of others with status 200."""
    if not 200 <= status < 300:
        return status
    failure = _failure_in(answer)
    if failure is None:
        return None
    code = str(failure.get("code", failure.get("status"))) if isinstance(failure, dict) else ""
    if len(code) == 3 and code.isdecimal() and 400 <= int(code) < 600:
        return int(code)
    kind = f"{code} {failure.get('type')}".lower() if isinstance(failure, dict) else ""
    return 400 if any(part in kind for part in _REFUSALS) else 500


def _failure_in(answer: dict[str, Any] | None) -> Any:
    """The error object of a response, or that of its only choice; None where it has none. vLLM's response is one."""
    if answer is None:
        return None
    choices = answer.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else None
    own = answer if answer.get("object") == "error" else None
    return answer.get("error") or own or (first.get("error") if isinstance(first, dict) else None)


def _wait_s(response: "httpx.Response | None", tries: int) -> float:
    """The service's retry-after, in seconds or as a date, else half a second, doubled with each try."""
    asked = None if response is None else _seconds(response.headers.get("retry-after", ""))
    return min(max(0.25 * 2.0**tries if asked is None else asked, 0.0), _LONGEST_WAIT_S)


def _seconds(retry_after: str) -> float | None:
    """The seconds of a retry-after; None where it is neither a number nor a date."""
    try:
        number = float(retry_after)
        return None if math.isnan(number) else number
    except ValueError:
        pass
    try:
        return parsedate_to_datetime(retry_after).timestamp() - time.time()
    except ValueError:
        return None


def _object_of(response: "httpx.Response") -> dict[str, Any] | None:
    """The JSON object of a response; None for another body. Gemini's errors are the only entries of a list."""
    try:
        answer = json.loads(response.content)
    except (ValueError, RecursionError):
        return None
    if isinstance(answer, list) and len(answer) == 1 and isinstance(answer[0], dict) and "error" in answer[0]:
        answer = answer[0]
    return answer if isinstance(answer, dict) else None


def _checked(url: str, response: "httpx.Response", answer: dict[str, Any] | None, secret: str | None) -> dict[str, Any]:
    """The object of a success. Raises LLMError for a failure."""
    status = _error_status(response.status_code, answer)
    if status is not None:
        remedy = _REMEDIES.get(status, "the service failed: try again later" if status >= 500 else "change the request")
        if 300 <= status < 400:
            remedy = f"the service is at another place, {response.headers.get('location', 'unnamed')}: correct endpoint"
        under = "" if status == response.status_code else f" under status {response.status_code}"
        shown = _without(secret, response.text)[:500]
        raise LLMError(f"{url} returned {status}{under}: {remedy}. Response: {shown}", status)
    if answer is None:
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
