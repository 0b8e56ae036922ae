"""A client's session over plain HTTP: one request for each verb, matched to its session by a header."""

import secrets
from collections.abc import Callable, Generator
from typing import Any, TypeVar

import httpx
import orjson

from openenv.core.client.address import Address, Endpoint
from openenv.core.client.lifecycle import AsyncLifecycle, BlockingLifecycle, Lifecycle
from openenv.core.client.session import FORKED
from openenv.core.errors import (
    AnswerTimeout,
    NotSupported,
    OpenEnvError,
    ServerUnreachable,
    SessionFault,
    SessionGone,
    SessionLost,
    error_from_wire,
)
from openenv.core.net.http_clients import async_http_client, async_whole_response, http_client, whole_response
from openenv.core.wire.client_codec import Request, encode_body
from openenv.core.wire.constants import NEW_SESSION, SESSION_HEADER

ResultT = TypeVar("ResultT")

_OF_PROXY = (502, 503, 504)
"""What a proxy answers whose server is gone. A server's own answers of these have JSON."""

Exchange = Generator[dict[str, Any], httpx.Response, dict[str, Any]]
"""Yields httpx's keywords of a request, takes the response, and returns the data."""


class HttpExchanges:
    """The session of one client without I/O: its id, and verbs as HTTP requests."""

    def __init__(self, session_id: str | None) -> None:
        self.session_id = session_id
        self.lost: OpenEnvError | None = None
        """Why the session can take no more requests."""

    def exchange(self, request: Request, address: Address) -> Exchange:
        """Send a request, once more where the connection broke: the server handles its request_id once.

        A reset opens a session when there is none, or the last one is lost.
        """
        if self.lost is not None:
            if request.kind != "reset":
                raise self.lost.with_traceback(None)
            self.session_id = self.lost = None
        timeout_s = request.response_timeout_s(address.message_timeout_s)
        timeout = httpx.Timeout(timeout_s, connect=address.connect_timeout_s)
        keywords = {**self._keywords(request), "timeout": timeout}
        try:
            try:
                response = yield keywords
            except (httpx.ReadError, httpx.RemoteProtocolError):
                if self.session_id is None:
                    raise
                response = yield keywords
        except (httpx.ReadTimeout, httpx.WriteTimeout) as error:
            raise AnswerTimeout(f"no answer from {address.base_url} in {timeout_s} s") from error
        except httpx.TransportError as error:
            reason = f"no environment answers at {address.base_url} ({error}): is the server running?"
            raise ServerUnreachable(reason) from error
        return self._data(response)

    def _keywords(self, request: Request) -> dict[str, Any]:
        kind = request.kind
        if kind not in ("reset", "step", "state"):
            raise NotSupported(f"{kind}() needs a WebSocket: use EnvClient")
        if self.session_id is None and kind != "reset":
            raise SessionFault(f"no session yet: reset() before {kind}()")
        headers = {SESSION_HEADER: self.session_id or NEW_SESSION, "Content-Type": "application/json"}
        if request.traceparent is not None:
            headers["traceparent"] = request.traceparent
        if kind == "state":
            return {"method": "GET", "url": "/state", "headers": headers}
        body = {"action": orjson.Fragment(request.data)} if kind == "step" else dict(request.data)
        body["request_id"] = secrets.token_hex(8)
        if request.timeout_s is not None:
            body["timeout_s"] = request.timeout_s
        return {"method": "POST", "url": f"/{kind}", "content": encode_body(body), "headers": headers}

    def _data(self, response: httpx.Response) -> dict[str, Any]:
        """The data in a response. Raises the exception that an error response stands for."""
        if response.status_code == 404 and self.session_id is not None:
            reason = f"the session is gone ({_error(response)}): reset() starts a new episode in a new one"
            self.lost = SessionGone(reason)
            raise self.lost
        if response.status_code in _OF_PROXY and not _is_json(response):
            raise ServerUnreachable(f"the server behind {response.url.host} does not answer: {_error(response)}")
        if response.is_error:
            raise _error(response)
        self.session_id = response.headers.get(SESSION_HEADER, self.session_id)
        data: dict[str, Any] = response.json()
        return data

    def close(self) -> str | None:
        """Forget the session. Returns the path at which the server deletes it; None: there is none."""
        session_id = self.session_id if self.lost is None else None
        self.session_id = self.lost = None
        return f"/sessions/{session_id}" if session_id else None


def _is_json(response: httpx.Response) -> bool:
    content_type: str = response.headers.get("content-type", "")
    return content_type.startswith("application/json")


def _error(response: httpx.Response) -> OpenEnvError:
    """The error of a response. A server of another make may send no code, or no JSON: then its text."""
    try:
        body = response.json()
    except ValueError:
        body = {"message": response.text[:500]}
    if "detail" in body and "message" not in body:
        body = {"message": f"HTTP {response.status_code}: {body['detail']}"}
    detail = body.pop("detail", None)
    if isinstance(detail, list):  # what is wrong with each field
        body["errors"] = detail
    return error_from_wire(body)


def _http_settings(address: Address) -> dict[str, Any]:
    base_url = _base_url(address)
    return {"base_url": base_url if "://" in base_url else f"http://{base_url}", "headers": address.headers}


def _base_url(address: Address) -> str:
    return address.base_url if address.unix_path is None else "localhost"


def client_of(address: Address) -> httpx.Client:
    """A client of the routes of the server at an address."""
    transport = None if address.unix_path is None else httpx.HTTPTransport(uds=address.unix_path)
    return http_client(_base_url(address), transport=transport, **_http_settings(address))


def async_client_of(address: Address) -> httpx.AsyncClient:
    """As `client_of`, in an event loop."""
    transport = None if address.unix_path is None else httpx.AsyncHTTPTransport(uds=address.unix_path)
    return async_http_client(_base_url(address), transport=transport, **_http_settings(address))


class _HttpLifecycle(Lifecycle):
    """Opens nothing: the first reset does."""

    _http: Any = None

    def __init__(self, endpoint: Endpoint, session_id: str | None = None) -> None:
        super().__init__(endpoint, session_id)
        self._exchanges = HttpExchanges(session_id)

    @property
    def session_id(self) -> str | None:
        """The session's id on the server."""
        return self._exchanges.session_id

    def leave_to_parent(self) -> None:
        """Called in a forked child: the parent's connections are no longer used."""
        super().leave_to_parent()
        if self._http is not None:
            self._http = None
            self._exchanges.lost = SessionLost(FORKED)


class BlockingHttpSession(_HttpLifecycle, BlockingLifecycle):
    """The session of a synchronous client."""

    _http: httpx.Client | None = None

    def request(self, request: Request, read: Callable[[dict[str, Any]], ResultT]) -> ResultT:
        """Send a request and return what `read` makes of the response's data."""
        self.connect()
        assert self._http is not None
        exchange = self._exchanges.exchange(request, self._endpoint.address)
        try:
            keywords = next(exchange)
            while True:
                try:
                    response = whole_response(self._http, self._endpoint.address.max_size, **keywords)
                except httpx.TransportError as error:
                    keywords = exchange.throw(error)
                else:
                    keywords = exchange.send(response)
        except StopIteration as finished:
            return read(finished.value)

    def connect(self) -> None:
        """Start the server and prepare connections; HTTP connects at each request."""
        if self._http is None:
            self._endpoint.start()
            self._http = client_of(self._endpoint.address)

    def _end(self) -> None:
        http, self._http = self._http, None
        path = self._exchanges.close()
        if http is None:
            return
        try:
            if path:
                http.delete(path)
        except httpx.TransportError:
            pass  # the server is gone, and the session with it
        finally:
            http.close()


class AsyncHttpSession(_HttpLifecycle, AsyncLifecycle):
    """The session of an asynchronous client."""

    _http: httpx.AsyncClient | None = None

    async def request(self, request: Request, read: Callable[[dict[str, Any]], ResultT]) -> ResultT:
        """As `BlockingHttpSession.request`."""
        await self.connect()
        assert self._http is not None
        exchange = self._exchanges.exchange(request, self._endpoint.address)
        try:
            keywords = next(exchange)
            while True:
                try:
                    response = await async_whole_response(self._http, self._endpoint.address.max_size, **keywords)
                except httpx.TransportError as error:
                    keywords = exchange.throw(error)
                else:
                    keywords = exchange.send(response)
        except StopIteration as finished:
            return read(finished.value)

    async def connect(self) -> None:
        """As `BlockingHttpSession.connect`."""
        async with self._opening:
            if self._http is None:
                await self._with_server(self._prepare, may_replace=False)

    async def _prepare(self) -> None:
        self._http = async_client_of(self._endpoint.address)

    async def _end(self) -> None:
        http, self._http = self._http, None
        path = self._exchanges.close()
        if http is None:
            return
        try:
            if path:
                await http.delete(path)
        except httpx.TransportError:
            pass  # the server is gone, and the session with it
        finally:
            await http.aclose()
