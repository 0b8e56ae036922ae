"""The endpoint's ASGI application: it finds the episode of a request, calls its model, and sends the answer."""

import asyncio
import hashlib
import logging
from collections.abc import Iterable, Mapping
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Any

import orjson
from starlette.datastructures import Headers
from starlette.requests import ClientDisconnect
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from openenv.agents.endpoint.chat import ChatCall
from openenv.agents.endpoint.dialect import DEFAULT_MODEL, Call, Memory
from openenv.agents.endpoint.fields import Fields
from openenv.agents.endpoint.messages import MessagesCall
from openenv.agents.endpoint.requests import AnswersRequests, ModelAnswer, ModelRequest, RequestRefused
from openenv.agents.endpoint.responses import ResponsesCall
from openenv.agents.endpoint.tools import ServesTools, mcp_answer
from openenv.core.wire.json_codec import write_json

log = logging.getLogger(__name__)

_CALLS: dict[str, type[Call]] = {
    "/v1/chat/completions": ChatCall,
    "/v1/responses": ResponsesCall,
    "/v1/messages": MessagesCall,
}
_TOOLS = "/mcp"
_RETRIES = "x-stainless-retry-count"
"""The header in which OpenAI's and Anthropic's clients count how often they have sent a request before."""
_STREAM_HEADERS = [(b"content-type", b"text/event-stream; charset=utf-8"), (b"cache-control", b"no-cache")]
_MODELS = {
    "object": "list", "has_more": False, "first_id": DEFAULT_MODEL, "last_id": DEFAULT_MODEL,
    "data": [{
        "id": DEFAULT_MODEL, "object": "model", "created": 0, "owned_by": "openenv",
        "type": "model", "display_name": DEFAULT_MODEL, "created_at": "1970-01-01T00:00:00Z",
    }],
}  # fmt: skip
"""For the clients of both providers."""


@dataclass(eq=False)
class Episode:
    """What is behind a key."""

    model: AnswersRequests
    loop: asyncio.AbstractEventLoop
    """Where the model's coroutines run."""
    tools: ServesTools | None = None
    memory: Memory = field(default_factory=Memory)
    running: set[Future[ModelAnswer]] = field(default_factory=set)
    is_closed: bool = False

    def start(self, request: ModelRequest) -> Future[ModelAnswer]:
        """Start a call of the model. Cancelling the future cancels the call, from any thread.

        Raises RequestRefused after the end.
        """
        if self.is_closed:  # since the request began to arrive
            raise _ended()
        answering = asyncio.run_coroutine_threadsafe(self.model.answer(request), self.loop)
        self.running.add(answering)
        answering.add_done_callback(self.running.discard)
        if self.is_closed:  # in another thread, meanwhile
            answering.cancel()
        return answering

    def close(self) -> None:
        """Cancel the calls that run."""
        self.is_closed = True
        for answering in tuple(self.running):
            answering.cancel()


class Application:
    """Serves the APIs to the programs that have a key."""

    def __init__(
        self, episodes: Mapping[bytes, Episode], *, max_body_bytes: int, keep_alive_s: float, answer_timeout_s: float
    ) -> None:
        """episodes: by the hash of their key, as they are at a request."""
        self._episodes = episodes
        self._max_body_bytes = max_body_bytes
        self._keep_alive_s = keep_alive_s
        self._answer_timeout_s = answer_timeout_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """The ASGI application."""
        headers = Headers(scope=scope)
        path = scope["path"].removeprefix(scope.get("root_path", ""))  # where another application serves this one
        key, path = _key_and_path(path, headers)
        is_anthropic = path.startswith("/v1/messages") or "anthropic-version" in headers
        form = _CALLS.get(path, MessagesCall if is_anthropic else ChatCall)
        try:
            await self._respond(scope, receive, send, key, path, headers)
        except RequestRefused as refusal:
            await _error(form, refusal)(scope, receive, send)
        except ClientDisconnect:
            log.debug("a program left before its answer")

    async def _respond(self, scope: Scope, receive: Receive, send: Send, key: str, path: str, headers: Headers) -> None:
        """Send a response. Raises RequestRefused where none has begun, and ClientDisconnect."""
        method = scope["method"]
        if method in ("GET", "HEAD") and path == "":
            await _json({})(scope, receive, send)
            return
        episode = self._episodes.get(hash_of(key))
        if episode is None:
            raise _ended()
        if method == "GET" and path == "/v1/models":
            await _json(_MODELS)(scope, receive, send)
            return
        if path == _TOOLS and episode.tools is not None:
            body = await _body(headers, receive, self._max_body_bytes) if method == "POST" else None
            await (await _tools_response(episode.tools, episode.loop, body))(scope, receive, send)
            return
        if method != "POST" or path not in _CALLS:
            posts = ", ".join(_CALLS)
            reason = f"{method} {path[:200]} is not served: the endpoint has POST {posts}, and GET /v1/models"
            raise RequestRefused(reason, status=404, code="unknown_url")
        body = await _body(headers, receive, self._max_body_bytes)
        call = _CALLS[path](Fields(_parsed(body)), episode.memory)
        if headers.get(_RETRIES, "0") != "0":
            call.request = replace(call.request, is_retry=True)
        if not call.is_streamed:
            response = await self._response(call, episode, receive, None)
            await _json(response)(scope, receive, send)
            return
        stream = _Stream(call, send)
        try:
            await stream.end(call.events(await self._response(call, episode, receive, stream)))
        except RequestRefused as refusal:
            if not stream.has_begun:
                raise
            await stream.end([call.error_event(refusal)])

    async def _response(
        self, call: Call, episode: Episode, receive: Receive, stream: "_Stream | None"
    ) -> dict[str, Any]:
        """The body of the response with the model's answer. Raises RequestRefused, and ClientDisconnect."""
        answering: Future[ModelAnswer] | None = None
        try:
            answering = episode.start(call.request)
            answer = await self._answer(asyncio.wrap_future(answering), episode, receive, stream)
            if len(answer.replies) != call.request.num_replies:
                raise ValueError(f"{len(answer.replies)} replies to a request for {call.request.num_replies}")
            return call.response(answer)
        except (RequestRefused, ClientDisconnect):
            raise
        except Exception as error:  # the model is code of others
            log.exception("a model did not answer a call")
            raise RequestRefused(f"the model failed with {type(error).__name__}", status=500) from error
        finally:
            if answering is not None:
                answering.cancel()

    async def _answer(
        self, answering: asyncio.Future[ModelAnswer], episode: Episode, receive: Receive, stream: "_Stream | None"
    ) -> ModelAnswer:
        """Wait for the model's answer, and keep the stream open meanwhile."""
        leaving = asyncio.create_task(_disconnected(receive))
        clock = answering.get_loop().time
        gives_up_at = clock() + self._answer_timeout_s
        try:
            while not answering.done():
                left_s = gives_up_at - clock()
                if left_s <= 0:
                    reason = f"the model did not answer within {self._answer_timeout_s:g} s"
                    raise RequestRefused(reason, status=504)
                pause_s = left_s if stream is None else min(left_s, self._keep_alive_s)
                done, _ = await asyncio.wait((answering, leaving), timeout=pause_s, return_when="FIRST_COMPLETED")
                if leaving in done and not answering.done():
                    raise ClientDisconnect
                if stream is not None and not done:
                    await stream.keep_open()
        finally:
            leaving.cancel()
        if answering.cancelled():
            raise _ended() if episode.is_closed else RequestRefused("the model's call was cancelled", status=500)
        return answering.result()


class _Stream:
    """The response with a call's events."""

    def __init__(self, call: Call, send: Send) -> None:
        self._call = call
        self._send = send
        self.has_begun = False

    async def keep_open(self) -> None:
        """Send a comment."""
        await self._write(self._call.keep_alive, is_last=False)

    async def end(self, events: Iterable[bytes]) -> None:
        """Send the events, and end the response."""
        await self._write(b"".join(events), is_last=True)

    async def _write(self, data: bytes, *, is_last: bool) -> None:
        if not self.has_begun:
            self.has_begun = True
            await self._send({"type": "http.response.start", "status": 200, "headers": _STREAM_HEADERS})
        await self._send({"type": "http.response.body", "body": data, "more_body": not is_last})


def hash_of(key: str) -> bytes:
    """What a key is looked up by: the time that the look-up takes reveals nothing of the keys."""
    return hashlib.sha256(key.encode(errors="replace")).digest()


def _key_and_path(path: str, headers: Headers) -> tuple[str, str]:
    """The key of a request, and its path without the key and without a slash at its end."""
    if path.startswith("/e/"):
        key, slash, rest = path.removeprefix("/e/").partition("/")
        return key, (slash + rest).rstrip("/")
    scheme, _, token = headers.get("authorization", "").partition(" ")
    bearer = token.strip() if scheme.lower() == "bearer" else ""
    return headers.get("x-api-key") or bearer, path.rstrip("/")


async def _body(headers: Headers, receive: Receive, limit: int) -> bytes:
    """The body of a request. Raises RequestRefused with status 413 for one above the limit, and ClientDisconnect."""
    length = headers.get("content-length", "")
    size, received, chunks = int(length) if length.isdigit() else 0, 0, []
    has_more = True
    while has_more and size <= limit:
        message = await receive()
        if message["type"] == "http.disconnect":
            raise ClientDisconnect
        chunks.append(message.get("body", b""))
        received += len(chunks[-1])
        size = max(size, received)
        has_more = message.get("more_body", False)
    if size > limit:
        reason = f"the request has {size:,} bytes or more, above the endpoint's limit of {limit:,}: send less"
        raise RequestRefused(reason, status=413, code="request_too_large")
    return b"".join(chunks)


def _parsed(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except ValueError as error:
        raise RequestRefused(f"the body is not JSON: {error}") from None


async def _disconnected(receive: Receive) -> None:
    """Return when the program closes its connection."""
    while (await receive())["type"] != "http.disconnect":
        pass


async def _tools_response(tools: ServesTools, loop: asyncio.AbstractEventLoop, body: bytes | None) -> Response:
    """The answer to a message of MCP. There are no events, and no session of MCP's own, which other methods ask for."""
    if body is None:
        return Response(status_code=405, headers={"allow": "POST"})
    answering = asyncio.run_coroutine_threadsafe(mcp_answer(tools, _parsed(body)), loop)
    answer = await asyncio.wrap_future(answering)
    return Response(status_code=202) if answer is None else _json(answer)


def _ended() -> RequestRefused:
    reason = "the key is not valid, or its episode has ended: use the key that the program was started with"
    return RequestRefused(reason, status=401, code="invalid_api_key")


def _json(value: dict[str, Any]) -> Response:
    return Response(write_json(value), media_type="application/json")


def _error(form: type[Call], refusal: RequestRefused) -> Response:
    response = Response(write_json(form.error(refusal)), refusal.status, media_type="application/json")
    if refusal.status in (500, 504):
        response.headers["x-should-retry"] = "false"  # the clients would call the model that failed twice more
    return response
