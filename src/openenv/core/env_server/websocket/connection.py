"""The server's end of a WebSocket, from its handshake on (RFC 6455, section 4.2), under any ASGI application.

An endpoint that finds this connection in its scope may detach it; until then its messages pass through ASGI.
"""

import asyncio
import base64
import binascii
import logging
from collections.abc import Sequence
from http import HTTPStatus
from http.client import responses
from typing import TYPE_CHECKING, Any

from starlette.types import Message, Scope
from uvicorn.protocols.utils import ClientDisconnected

from openenv.core.env_server.websocket.direct_websocket import DirectWebSocket
from openenv.core.net.busy_poll import LoopSpinner
from openenv.core.net.frames import (
    BINARY,
    BROKEN_OFF,
    CLOSE,
    INTERNAL_ERROR,
    NO_STATUS,
    NO_TEXT,
    NORMAL,
    PING,
    PONG,
    SERVICE_RESTART,
    TEXT,
    FrameError,
    FrameReader,
    WebSocketMessage,
    close_code,
    close_payload,
    server_frame,
)
from openenv.core.net.handshake import accept_key

if TYPE_CHECKING:
    from uvicorn import Config
    from uvicorn.server import ServerState

log = logging.getLogger(__name__)

EXTENSION = "openenv.direct"
"""Under this name an endpoint finds the connection in its scope's extensions."""
_MAX_QUEUED_MESSAGES = 16
"""Messages that wait for the application; then the socket is no longer read."""
_CLOSE_TIMEOUT_S = 10.0
_KEY_BYTES = 16

Headers = Sequence[tuple[bytes, bytes]]


class WebSocketConnection(asyncio.Protocol):
    """One connection whose client has requested a WebSocket."""

    def __init__(
        self,
        config: "Config",
        server_state: "ServerState",
        transport: asyncio.Transport,
        loop: asyncio.AbstractEventLoop,
        scope: Scope,
    ) -> None:
        """scope: ASGI's of the request."""
        self._config = config
        self._server_state = server_state
        self._transport = transport
        self._loop = loop
        self._scope = scope
        self._direct: DirectWebSocket | None = None
        self._reader = FrameReader(config.ws_max_size, from_client=True)
        self._inbox: asyncio.Queue[Message] = asyncio.Queue()
        self._inbox.put_nowait({"type": "websocket.connect"})
        self._writable: asyncio.Future[None] | None = None
        """Done when the client has caught up; None: it has."""
        self._refusal: tuple[int, list[tuple[bytes, bytes]]] | None = None
        """Status and headers of a plain HTTP response, whose body is still to come."""
        self._refusal_body = b""
        self._close_timer: asyncio.TimerHandle | None = None
        """Aborts the connection of a client that does not send its close frame."""
        self._key = b""
        """The client's Sec-WebSocket-Key."""
        self._is_accepted = self._is_refused = self._close_sent = self._is_lost = self._has_failed = False
        self._is_ended = False
        """Whether the client or the server ended it, and not the application."""
        server_state.connections.add(self)  # type: ignore[arg-type]  # uvicorn's annotation lists its own classes

    def begin(self, app: Any) -> None:
        """Refuse a wrong handshake; pass a right one on to the application."""
        headers = dict(self._scope["headers"])
        if self._scope.pop("method") != "GET":
            self._respond(HTTPStatus.METHOD_NOT_ALLOWED, [(b"allow", b"GET")], b"A WebSocket is requested with GET")
        elif headers.get(b"sec-websocket-version") != b"13":
            self._respond(
                HTTPStatus.UPGRADE_REQUIRED, [(b"sec-websocket-version", b"13")], b"This server supports version 13"
            )
        elif not _is_key(headers.get(b"sec-websocket-key", b"")):
            self._respond(HTTPStatus.BAD_REQUEST, [], b"Sec-WebSocket-Key: send 16 bytes in base64")
        else:
            self._scope["extensions"] = {"websocket.http.response": {}, EXTENSION: self}
            self._key = headers[b"sec-websocket-key"]
            task = self._loop.create_task(self._run(app))
            self._server_state.tasks.add(task)
            task.add_done_callback(self._server_state.tasks.discard)

    def detach(self) -> DirectWebSocket:
        """Pass all frames to a DirectWebSocket. To be called right after the accept, before a frame can have come."""
        self._direct = DirectWebSocket(self._transport, self._config.ws_max_size, self._loop, self.connection_lost)
        self._transport.set_protocol(self._direct)
        if self._writable is not None:  # the transport resumes the new protocol when the client has caught up
            self.resume_writing()
            self._direct.pause_writing()
        return self._direct

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        if self._has_failed:
            return
        if not self._is_accepted:
            self._transport.abort()  # a client sends nothing before the handshake is complete
            return
        try:
            for frame in self._reader.feed(data):
                self._on_frame(frame)
        except FrameError as error:
            self._has_failed = self._is_ended = True
            self._end(error.code, error.reason)
            self._transport.write_eof()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._is_lost = True
        self._server_state.connections.discard(self)
        self._inbox.put_nowait(_disconnect(NO_STATUS if self._is_accepted else BROKEN_OFF))
        self.resume_writing()
        if self._close_timer is not None:
            self._close_timer.cancel()
        LoopSpinner.of(self._loop).arm(self._loop)  # a client may open the next session at once

    def pause_writing(self) -> None:
        """Called by the transport when the client reads too slowly."""
        self._writable = self._loop.create_future()

    def resume_writing(self) -> None:
        """Called by the transport when the client has caught up."""
        writable, self._writable = self._writable, None
        if writable is not None:
            writable.set_result(None)

    def shutdown(self) -> None:
        """Called by uvicorn when the server stops."""
        if self._direct is not None:
            self._direct.shut_down()
        elif self._is_accepted:
            self._is_ended = True
            self._end(SERVICE_RESTART)
        elif not self._is_refused:
            self._respond(HTTPStatus.INTERNAL_SERVER_ERROR, [], b"The server is stopping")
        self._transport.close()

    async def _run(self, app: Any) -> None:
        path = self._scope["path"]
        try:
            await app(self._scope, self._receive, self._send)
        except ClientDisconnected:
            pass
        except Exception:
            log.exception("the application failed with a WebSocket of %s", path)
            if self._is_accepted:
                self._end(INTERNAL_ERROR)
        finally:
            self._scope.clear()  # this connection is in it
            if not (self._is_accepted or self._is_refused or self._is_lost):
                self._respond(HTTPStatus.INTERNAL_SERVER_ERROR, [], b"Internal Server Error")
            if self._close_sent and not self._is_lost and self._direct is None:
                self._close_timer = self._loop.call_later(_CLOSE_TIMEOUT_S, self._transport.abort)
            else:
                self._transport.close()

    async def _receive(self) -> Message:
        message = await self._inbox.get()
        if self._inbox.qsize() < _MAX_QUEUED_MESSAGES and not self._transport.is_closing():
            self._transport.resume_reading()
        return message

    async def _send(self, message: Message) -> None:
        if self._writable is not None:
            await asyncio.shield(self._writable)  # cancelling one send leaves it for the others
        kind = message["type"]
        if self._is_lost or self._is_ended:
            if kind == "websocket.close":
                return
            raise ClientDisconnected
        if not (self._is_accepted or self._is_refused):
            self._handshake(kind, message)
        elif self._is_accepted and not self._close_sent and kind == "websocket.send":
            data = message.get("bytes")
            frame = server_frame(TEXT, message["text"].encode()) if data is None else server_frame(BINARY, data)
            self._transport.write(frame)
        elif self._is_accepted and not self._close_sent and kind == "websocket.close":
            self._end(message.get("code", NORMAL), message.get("reason") or "")
        else:
            raise RuntimeError(f"{kind} comes after the connection was closed, or refused")

    def _handshake(self, kind: str, message: Message) -> None:
        if kind == "websocket.accept":
            chosen = message.get("subprotocol")
            headers = [
                (b"upgrade", b"websocket"),
                (b"connection", b"Upgrade"),
                (b"sec-websocket-accept", accept_key(self._key).encode()),
                *([] if chosen is None else [(b"sec-websocket-protocol", chosen.encode("latin-1"))]),
                *message.get("headers", ()),
            ]
            head = _head(HTTPStatus.SWITCHING_PROTOCOLS, headers)
            self._is_accepted = True
            self._transport.write(head)
            log.debug("%s: WebSocket of %s accepted", self._scope["path"], self._scope["client"])
        elif kind == "websocket.close":
            self._respond(HTTPStatus.FORBIDDEN, [], b"")
        elif kind == "websocket.http.response.start":
            self._refusal = message["status"], list(message.get("headers", ()))
        elif kind == "websocket.http.response.body" and self._refusal is not None:
            self._refusal_body += message.get("body", b"")
            if not message.get("more_body", False):
                self._respond(*self._refusal, self._refusal_body)
        else:
            raise RuntimeError(f"{kind} comes before websocket.accept")

    def _respond(self, status: int, headers: Headers, body: bytes) -> None:
        """Send a plain HTTP response, and close."""
        self._is_refused = True
        given = {name.lower() for name, _ in headers}
        length = (b"content-length", b"%d" % len(body))
        ours = [*self._server_state.default_headers, length, (b"connection", b"close")]
        self._transport.write(_head(status, [*headers, *(one for one in ours if one[0] not in given)]) + body)
        self._transport.close()
        self._inbox.put_nowait(_disconnect(BROKEN_OFF))

    def _on_frame(self, frame: WebSocketMessage) -> None:
        if frame.opcode == PING and self._writable is None:
            self._transport.write(server_frame(PONG, frame.data))
        elif frame.opcode == CLOSE:
            self._is_ended = True
            self._send_close(NORMAL)
            self._inbox.put_nowait(_disconnect(close_code(frame.data), frame.data[2:].decode(errors="replace")))
            self._transport.close()
        elif frame.opcode < CLOSE and not self._close_sent:
            self._queue_message(frame)

    def _queue_message(self, frame: WebSocketMessage) -> None:
        try:
            content = {"bytes": frame.data} if frame.opcode == BINARY else {"text": frame.data.decode()}
        except UnicodeDecodeError:
            self._is_ended = True
            self._end(NO_TEXT, "a text message is not UTF-8")
            return
        self._inbox.put_nowait({"type": "websocket.receive", **content})
        if self._inbox.qsize() >= _MAX_QUEUED_MESSAGES:
            self._transport.pause_reading()

    def _end(self, code: int, reason: str = "") -> None:
        """Send a close frame; messages that still come are ignored."""
        if not self._close_sent:
            self._send_close(code, reason)
            self._inbox.put_nowait(_disconnect(code, reason))
            if not self._transport.is_closing():
                self._transport.resume_reading()

    def _send_close(self, code: int, reason: str = "") -> None:
        if not self._close_sent and not self._transport.is_closing():
            self._transport.write(server_frame(CLOSE, close_payload(code, reason)))
        self._close_sent = True


def _disconnect(code: int, reason: str = "") -> Message:
    return {"type": "websocket.disconnect", "code": code, "reason": reason}


def _head(status: int, headers: Headers) -> bytes:
    first = b"HTTP/1.1 %d %b\r\n" % (status, responses.get(status, "").encode())
    head = first + b"".join([b"%b: %b\r\n" % header for header in headers]) + b"\r\n"
    if head.count(b"\n") != len(headers) + 2 or head.count(b"\r") != len(headers) + 2:
        raise ValueError("headers: a name or a value holds a line break")
    return head


def _is_key(key: bytes) -> bool:
    try:
        return len(base64.b64decode(key, validate=True)) == _KEY_BYTES
    except binascii.Error:
        return False
