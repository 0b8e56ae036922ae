"""The plain-HTTP client of the same verbs, for where a WebSocket cannot pass."""

import secrets
from collections.abc import Callable
from typing import Any

import httpx
import orjson
from typing_extensions import TypeVar

from openenv.core.async_session import AsyncRequests, ResultT
from openenv.core.blocking_session import BlockingRequests
from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.errors import (
    AnswerTimeout,
    NotSupported,
    ServerUnreachable,
    SessionFault,
    SessionGone,
    error_from_wire,
)
from openenv.core.joint_session import JointSession
from openenv.core.protocol import NEW_SESSION, SESSION_HEADER
from openenv.core.requests import Request, encode_body

ActT = TypeVar("ActT", default=Action)
ObsT = TypeVar("ObsT", default=Observation)
StateT = TypeVar("StateT", default=State)


class _HttpSession:
    """The session of one client: its id, and how verbs become requests."""

    def __init__(self, session_id: str | None) -> None:
        self.session_id = session_id
        self.is_lost = False

    def request(self, request: Request) -> dict[str, Any]:
        """Keywords of httpx for a request. A reset opens a session when there is none yet."""
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
        body["request_id"] = secrets.token_hex(8)  # the server does it once, however often it is sent
        if request.timeout_s is not None:
            body["timeout_s"] = request.timeout_s
        return {"method": "POST", "url": f"/{kind}", "content": encode_body(body), "headers": headers}

    def answer(self, response: httpx.Response) -> dict[str, Any]:
        """The data in a response. Raises the exception that an error response stands for."""
        if response.status_code == 404 and self.session_id is not None:
            self.is_lost = True
            raise SessionGone(f"the session is gone ({_error(response)}): reset() starts a new episode in a new one")
        if response.is_error:
            raise _error(response)
        self.session_id = response.headers.get(SESSION_HEADER, self.session_id)
        data: dict[str, Any] = response.json()
        return data

    def end_url(self) -> str | None:
        """Where the session is deleted, or None when none was opened."""
        return f"/sessions/{self.session_id}" if self.session_id else None


def _error(response: httpx.Response) -> Exception:
    """A server of another make answers without a code, perhaps without JSON: its text is all there is to tell."""
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


class _BlockingHttp(_HttpSession):
    def __init__(self, client: httpx.Client, session_id: str | None) -> None:
        super().__init__(session_id)
        self._client = client

    def ask(self, request: Request, timeout_s: float) -> dict[str, Any]:
        sent = self.request(request)
        try:
            try:
                return self.answer(self._client.request(**sent, timeout=timeout_s))
            except (httpx.ReadError, httpx.RemoteProtocolError):
                if self.session_id is None:
                    raise
                return self.answer(self._client.request(**sent, timeout=timeout_s))
        except httpx.TimeoutException as error:
            raise AnswerTimeout(f"no answer from {self._client.base_url} in {timeout_s} s") from error
        except httpx.TransportError as error:
            raise _unreachable(self._client.base_url, error) from error

    def close(self) -> None:
        url = self.end_url()
        try:
            if url:
                self._client.delete(url)
        except httpx.TransportError:
            pass  # the server is gone, and the session with it
        finally:
            self._client.close()


class _AsyncHttp(_HttpSession):
    def __init__(self, client: httpx.AsyncClient, session_id: str | None) -> None:
        super().__init__(session_id)
        self._client = client

    async def ask(self, request: Request, timeout_s: float, read: Callable[[dict[str, Any]], ResultT]) -> ResultT:
        sent = self.request(request)
        try:
            try:
                return read(self.answer(await self._client.request(**sent, timeout=timeout_s)))
            except (httpx.ReadError, httpx.RemoteProtocolError):
                if self.session_id is None:
                    raise
                return read(self.answer(await self._client.request(**sent, timeout=timeout_s)))
        except httpx.TimeoutException as error:
            raise AnswerTimeout(f"no answer from {self._client.base_url} in {timeout_s} s") from error
        except httpx.TransportError as error:
            raise _unreachable(self._client.base_url, error) from error

    async def close(self) -> None:
        url = self.end_url()
        try:
            if url:
                await self._client.delete(url)
        except httpx.TransportError:
            pass  # the server is gone, and the session with it
        finally:
            await self._client.aclose()


def _unreachable(base_url: httpx.URL, error: httpx.TransportError) -> ServerUnreachable:
    return ServerUnreachable(f"no environment answers at {base_url} ({error}): is the server running?")


class HTTPEnvClient(EnvClient[ActT, ObsT, StateT]):
    """An `EnvClient` that sends each verb as one HTTP request to a session of its own on the server.

    The server must keep sessions over HTTP, as ours does.
    """

    def _open_session(self) -> BlockingRequests:
        path = self._address.unix_path
        transport = None if path is None else httpx.HTTPTransport(uds=path)
        return _BlockingHttp(httpx.Client(transport=transport, **self._http_settings()), self._attach_to)

    async def joined(self, num_envs: int) -> list[JointSession[ActT, ObsT]]:
        """Over HTTP each environment has a session of its own."""
        return []

    async def _open_session_async(self) -> AsyncRequests:
        path = self._address.unix_path
        transport = None if path is None else httpx.AsyncHTTPTransport(uds=path)
        return _AsyncHttp(httpx.AsyncClient(transport=transport, **self._http_settings()), self._attach_to)

    def _http_settings(self) -> dict[str, Any]:
        base_url = self._address.base_url if self._address.unix_path is None else "localhost"
        return {
            "base_url": base_url if "://" in base_url else f"http://{base_url}",
            "headers": self._address.headers,
        }
