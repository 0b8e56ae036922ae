"""The `/ws` endpoint: a connection plays one session, in the published dialect or the extended one.

Published: the session lives and ends with its connection. Extended, chosen by subprotocol: requests carry ids,
responses carry their validity, and the session is kept for a while after its connection breaks.
"""

import asyncio
import contextlib
from collections import deque
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qs

import orjson
from starlette.types import Message, Receive, Scope, Send
from starlette.websockets import WebSocketDisconnect

from openenv.core.env_server.runner.session_options import Query, SessionOptions, parse_session_options
from openenv.core.env_server.sessions.json_rpc import JsonRpc
from openenv.core.env_server.sessions.manager import RETRY_AFTER_S, STOPPING, SessionManager
from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.websocket.connection import EXTENSION, WebSocketConnection
from openenv.core.env_server.websocket.direct_websocket import MAX_QUEUED_FRAMES, DirectWebSocket, Respond
from openenv.core.env_server.websocket.message_handler import MessageHandler
from openenv.core.errors import CapacityReached, RequestRefused, SessionFault
from openenv.core.net.frames import NORMAL
from openenv.core.wire.arrays import BinaryFrame
from openenv.core.wire.constants import ARRAYS_SUBPROTOCOL, SUBPROTOCOL
from openenv.core.wire.server_codec import error_frame, extended_error_frame

_REFUSAL = "websocket.http.response"
"""ASGI's extension that answers a handshake with an HTTP response."""
_READ_AHEAD_TURNS = 4
"""Turns of the event loop in which an ASGI server passes on that a client has left."""


class WebSocketEndpoint:
    """An ASGI application that plays sessions over WebSocket connections."""

    def __init__(self, sessions: SessionManager) -> None:
        self._sessions = sessions
        self._rpc = JsonRpc(sessions)
        self._max_envs = sessions.config.max_envs_per_session

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept the connection, open or find its session, and respond until either side closes."""
        await receive()  # websocket.connect
        query_string = scope.get("query_string", b"")
        query = parse_qs(query_string.decode("latin-1"), keep_blank_values=True) if query_string else {}
        if self._sessions.is_draining and not _named(query) and _REFUSAL in scope.get("extensions", {}):
            await _refuse(send)
            return
        offered = scope.get("subprotocols", ())
        chosen = next((name for name in (ARRAYS_SUBPROTOCOL, SUBPROTOCOL) if name in offered), None)
        extended, arrays = chosen is not None, chosen == ARRAYS_SUBPROTOCOL
        direct: WebSocketConnection | None = scope.get("extensions", {}).get(EXTENSION)
        if direct is not None:
            direct.will_detach = True
        await send({"type": "websocket.accept", "subprotocol": chosen})
        # under another server than uvicorn frames pass through ASGI
        connection = AsgiWebSocket(receive, send) if direct is None else direct.detach()
        try:
            options = parse_session_options(query, packs_arrays=arrays, max_envs=self._max_envs)
            session = await self._session(query, connection, send, options, extended=extended)
        except RequestRefused as error:
            await _send_text(send, extended_error_frame(error, None) if extended else error_frame(error))
            await connection.close()
            return
        may_return = extended and "session_id" in query
        try:
            if extended and not await connection.has_left():
                await _send_text(send, self._hello(session, options))
                may_return = True  # the client knows the session's id
            handler = MessageHandler(self._sessions, self._rpc, session, extended=extended, arrays=arrays)
            if await connection.respond_with(handler.handle):
                may_return = False
        finally:
            await self._sessions.detach(session, connection, keep=may_return)
            await connection.close()

    def _hello(self, session: Session, options: SessionOptions) -> bytes:
        """The first frame of the extended dialect."""
        data: dict[str, Any] = {"session_id": session.id, "grace_s": self._sessions.config.reconnect_grace_s}
        if self._sessions.longest_s:
            data["longest_s"] = self._sessions.longest_s
        if options.vector is not None:
            where = {"execution": self._sessions.execution, "num_workers": self._sessions.share.num_workers}
            data["vector"] = {**asdict(options.vector), **where}
        return orjson.dumps({"type": "session", "data": data})

    async def _session(
        self, query: Query, connection: "_SessionWebSocket", send: Send, options: SessionOptions, *, extended: bool
    ) -> Session:
        """The session that the URL names, or a new one."""
        named = _named(query)
        if named:
            session = self._sessions.find(named)
        else:
            session = await self._open_session(connection, send, options, extended=extended)
        self._sessions.attach(session, connection, take_over=extended)
        return session

    async def _open_session(
        self, connection: "_SessionWebSocket", send: Send, options: SessionOptions, *, extended: bool
    ) -> Session:
        """A new session, after a wait in the queue of a full server.

        In the extended dialect the client receives its position and the longest wait. Raises what SessionManager.open
        does, and SessionFault when the client leaves the queue.
        """
        sessions = self._sessions
        if sessions.try_acquire_slot():
            return await sessions.open_in_slot(options=options)
        queued: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        opening = asyncio.ensure_future(sessions.open(options=options, on_queued=queued.set_result))
        leaving: asyncio.Future[bool] | None = None
        try:
            await _first_of(opening, queued)
            if not queued.done():
                return opening.result()
            if extended:
                position = {"position": queued.result(), "wait_s": sessions.config.queue_timeout_s}
                await _send_text(send, orjson.dumps({"type": "queued", "data": position}))
            leaving = asyncio.ensure_future(connection.wait_until_closed())
            await _first_of(opening, leaving)
            if opening.done():
                return opening.result()
            raise SessionFault("the client left the queue")
        finally:
            if leaving is not None:
                leaving.cancel()
            if not opening.done():
                opening.cancel()


class AsgiWebSocket:
    """A connection whose frames pass through ASGI, under any server but our own, with a DirectWebSocket's methods."""

    def __init__(self, receive: Receive, send: Send) -> None:
        self._receive = receive
        self._send = send
        self._queue: deque[Message] = deque()
        self._closing: asyncio.Task[None] | None = None
        """The task that sends the close frame of `shut_down`."""

    async def has_left(self) -> bool:
        """Whether the client has left by now."""
        reading = asyncio.ensure_future(self.wait_until_closed())
        for _ in range(_READ_AHEAD_TURNS):
            await asyncio.sleep(0)
        return not reading.cancel()

    async def wait_until_closed(self) -> bool:
        """Read ahead for the end of the connection, and queue the frames before it."""
        while len(self._queue) < MAX_QUEUED_FRAMES:
            message = await self._receive()
            self._queue.append(message)
            if message["type"] == "websocket.disconnect":
                return _closed_by_client(message)
        return await asyncio.get_running_loop().create_future()  # type: ignore[no-any-return]

    async def respond_with(self, respond: Respond) -> bool:
        """Reply to each frame until the connection ends. Returns whether the client closed it."""
        while True:
            message = self._queue.popleft() if self._queue else await self._receive()
            if message["type"] == "websocket.disconnect":
                return _closed_by_client(message)
            if self._closing is not None:
                return False
            text = message.get("text")
            reply = respond(BinaryFrame(message["bytes"]) if text is None else text)
            if reply is None:
                return True
            frame = reply if isinstance(reply, bytes) else reply.encode(await asyncio.shield(reply.result))
            try:
                is_binary = isinstance(frame, BinaryFrame)
                await self._send(
                    {"type": "websocket.send", **({"bytes": frame} if is_binary else {"text": frame.decode()})}
                )
            except RuntimeError:  # ASGI's error for a connection that the server closed, such as for invalid UTF-8
                return False

    def shut_down(self, code: int, reason: str) -> None:
        """Close the connection, and ignore the frames that still come."""
        if self._closing is None:
            self._closing = asyncio.ensure_future(self._send_close(code, reason))

    async def close(self) -> None:
        """Close the connection, unless it is closed already."""
        await (self._closing or self._send_close(NORMAL, ""))

    async def _send_close(self, code: int, reason: str) -> None:
        with contextlib.suppress(RuntimeError, OSError, WebSocketDisconnect):  # it is closed already
            await self._send({"type": "websocket.close", "code": code, "reason": reason})


def _closed_by_client(message: Message) -> bool:
    return message.get("code") in (1000, 1001)


_SessionWebSocket = DirectWebSocket | AsgiWebSocket


async def _first_of(*awaited: "asyncio.Future[Any]") -> None:
    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)


def _named(query: Query) -> str:
    """The id of the session that the URL names; empty: a new one is asked for."""
    return query.get("session_id", [""])[0]


async def _refuse(send: Send) -> None:
    """Refuse the handshake of a new session while the server stops: a gateway can ask another server instead."""
    body = orjson.dumps({"message": STOPPING, "code": CapacityReached.code, "retry_after_s": RETRY_AFTER_S})
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body))]
    await send({"type": f"{_REFUSAL}.start", "status": 503, "headers": headers})
    await send({"type": f"{_REFUSAL}.body", "body": body})


async def _send_text(send: Send, frame: bytes) -> None:
    await send({"type": "websocket.send", "text": frame.decode()})
