"""The HTTP clients of this package: those of a server on this machine use no proxy. And responses with limits."""

import asyncio
import time
from collections.abc import Callable
from typing import Any, TypeVar

import httpx

from openenv.core.errors import MessageTooBig, ServerUnreachable
from openenv.core.utils import is_on_this_machine

ClientT = TypeVar("ClientT", httpx.Client, httpx.AsyncClient)

_OF_THE_BODY = frozenset({"content-encoding", "content-length", "transfer-encoding"})
"""Headers that are true of a body as it is sent, before it is read."""


def http_client(url: str, **settings: Any) -> httpx.Client:
    """A client of the server at a URL. settings: httpx's. Raises ServerUnreachable for a proxy that cannot be used."""
    return _made(httpx.Client, url, settings)


def async_http_client(url: str, **settings: Any) -> httpx.AsyncClient:
    """As `http_client`, in an event loop."""
    return _made(httpx.AsyncClient, url, settings)


def _made(client_cls: Callable[..., ClientT], url: str, settings: dict[str, Any]) -> ClientT:
    if is_on_this_machine(url):
        certificates = {"verify": httpx.create_ssl_context()} if url.startswith("https") else {}
        return client_cls(**{**certificates, **settings, "trust_env": False})
    try:
        return client_cls(**settings)
    except (ImportError, ValueError, httpx.InvalidURL) as error:
        raise ServerUnreachable(
            f"{url} cannot be reached by the proxy that HTTP_PROXY, HTTPS_PROXY, ALL_PROXY or NO_PROXY name: {error}"
        ) from error


class _Body:
    """The body of a response as it arrives, with limits on its size and on the time until its end."""

    def __init__(self, response: httpx.Response, timeout_s: float, max_size: int) -> None:
        self._response = response
        self._gives_up_at = time.monotonic() + timeout_s
        self._max_size = max_size
        self._data = bytearray()

    def add(self, data: bytes) -> None:
        """Take some bytes. Raises MessageTooBig, and httpx's ReadTimeout when the time is up."""
        self._data += data
        if len(self._data) > self._max_size:
            url = self._response.request.url
            raise MessageTooBig(f"the response of {url} is above max_message_size_mb: {self._max_size} bytes")
        if time.monotonic() > self._gives_up_at:
            raise httpx.ReadTimeout("the response is not complete", request=self._response.request)

    def response(self) -> httpx.Response:
        """The whole response."""
        headers = [(name, value) for name, value in self._response.headers.multi_items() if name not in _OF_THE_BODY]
        status = self._response.status_code
        return httpx.Response(status, headers=headers, content=bytes(self._data), request=self._response.request)


def whole_response(http: httpx.Client, max_size: int, **request: Any) -> httpx.Response:
    """The response to a request, whose timeout holds for the body as a whole. Raises MessageTooBig."""
    with http.stream(**request) as response:
        body = _Body(response, request["timeout"].read, max_size)
        for data in response.iter_bytes():
            body.add(data)
    return body.response()


async def async_whole_response(http: httpx.AsyncClient, max_size: int, **request: Any) -> httpx.Response:
    """As `whole_response`, in an event loop; the timeout holds for the response's head too."""
    try:
        async with asyncio.timeout(request["timeout"].read), http.stream(**request) as response:
            body = _Body(response, request["timeout"].read, max_size)
            async for data in response.aiter_bytes():
                body.add(data)
    except TimeoutError as error:
        raise httpx.ReadTimeout("the response is not complete") from error
    return body.response()
