"""The `/ws` endpoint: a connection plays one session, in the published dialect or the extended one.

Published: the session lives and ends with its connection. Extended (chosen by subprotocol): requests carry ids, answers
their validity, and the session waits for its client when the connection breaks.
"""

import logging
from typing import Any
from urllib.parse import parse_qs

import orjson

from openenv.core.env_server.asgi import Receive, Scope, Send
from openenv.core.env_server.json_rpc import JsonRpc
from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.types import ForkRequest, ResetRequest, RestoreRequest
from openenv.core.env_server.verbs import Answer
from openenv.core.env_server.waiting_line import PatientReceive, session_in_turn
from openenv.core.env_server.wire import (
    Request,
    answer_frame,
    checked,
    error_frame,
    extended_answer_frame,
    extended_error_frame,
    read_request,
)
from openenv.core.errors import InvalidJSON, MessageTooBig, RequestRefused
from openenv.core.protocol import ANSWER_TYPE, SUBPROTOCOL

log = logging.getLogger(__name__)


class WebSocketEndpoint:
    """An ASGI application that plays sessions over WebSocket connections."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._rpc = JsonRpc(sessions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept the connection, open or find its session, answer until either side closes."""
        await receive()  # websocket.connect
        extended = SUBPROTOCOL in scope.get("subprotocols", ())
        await send({"type": "websocket.accept", "subprotocol": SUBPROTOCOL if extended else None})
        connection = object()
        receive = PatientReceive(receive)
        try:
            named = parse_qs(scope.get("query_string", b"").decode()).get("session_id")
            if named:
                session = self._sessions.find(named[0])
            else:
                session = await session_in_turn(self._sessions, receive, send, extended=extended)
            self._sessions.attach(session, connection, take_over=extended)
        except RequestRefused as error:
            await _send_text(send, extended_error_frame(error, None) if extended else error_frame(error))
            await send({"type": "websocket.close", "code": 1000})
            return
        said_goodbye = False
        try:
            if extended:
                await _send_text(send, _welcome(session, self._sessions.config.grace_s))
            conversation = _Conversation(self._sessions, self._rpc, session, extended=extended)
            said_goodbye = await conversation.hold(receive, send)
        finally:
            await self._sessions.detach(session, connection, keep=extended and not said_goodbye)


def _welcome(session: Session, grace_s: float) -> bytes:
    return orjson.dumps({"type": "session", "data": {"session_id": session.id, "grace_s": grace_s}})


class _Conversation:
    """Requests and answers of one connection."""

    def __init__(self, sessions: Sessions, rpc: JsonRpc, session: Session, *, extended: bool) -> None:
        self._sessions = sessions
        self._rpc = rpc
        self._session = session
        self._extended = extended
        self._max_bytes = sessions.config.max_message_bytes

    async def hold(self, receive: Receive, send: Send) -> bool:
        """Answer until the connection ends. Returns whether the client said goodbye."""
        while (message := await receive())["type"] == "websocket.receive":
            answer = await self.reply(message.get("text"))
            if answer is None:
                await send({"type": "websocket.close", "code": 1000})
                return True
            try:
                await _send_text(send, answer)
            except RuntimeError:  # ASGI's word for a connection that the server closed by itself: text is no UTF-8
                return False
        return message.get("code") in (1000, 1001)

    async def reply(self, frame: str | None) -> bytes | None:
        """The frame that answers `frame` (None: it was binary), or None when it asks to close. Never raises what a
        client caused."""
        request_id = None
        try:
            if frame is None:
                raise InvalidJSON("Invalid JSON: a message is a text frame, this is a binary one")
            if 4 * len(frame) > self._max_bytes:  # no character takes more bytes than that
                _refuse_too_big(len(frame.encode()), self._max_bytes)
            request = read_request(frame, extended=self._extended)
            request_id = request.id
            if request.type == "close":
                return None
            return await self._answer(request)
        except RequestRefused as error:
            return extended_error_frame(error, request_id) if self._extended else error_frame(error)

    async def _answer(self, request: Request) -> bytes:
        if request.type not in ANSWER_TYPE:
            run = self._call_tools if request.type == "mcp" else self._branch
            answer = await self._session.once(request.id, lambda: run(request))
            if not self._extended:
                return answer_frame(request.type, answer.data)
            return extended_answer_frame(request.type, answer.data, request.id, "valid")
        if self._extended and request.type == "reset":
            checked(ResetRequest, request.data)  # the published frames leave a negative seed to the environment
        kind = ANSWER_TYPE[request.type]
        options = {} if request.timeout_s is None else {"timeout_s": request.timeout_s}
        answer = await self._session.ask(request.type, request.data, options, request.id, request.traceparent)  # type: ignore[arg-type]
        if not self._extended:
            return answer_frame(kind, answer.data)
        validity = "truncated" if answer.truncated else "valid"
        return extended_answer_frame(kind, answer.data, request.id, validity)

    async def _call_tools(self, request: Request) -> Answer:
        return Answer(await self._rpc.reply(request.data, own=self._session, traceparent=request.traceparent))

    async def _branch(self, request: Request) -> Answer:
        return Answer(orjson.dumps(await self._branched(request)))

    async def _branched(self, request: Request) -> dict[str, Any]:
        """Snapshots: save, restore, fork."""
        if request.type == "save":
            return {"token": await self._sessions.save(self._session)}
        if request.type == "restore":
            await self._sessions.restore(self._session, checked(RestoreRequest, request.data).token)
            return {}
        count = checked(ForkRequest, request.data).count
        return {"session_ids": [branch.id for branch in await self._sessions.fork(self._session, count)]}


def _refuse_too_big(size_bytes: int, max_bytes: int) -> None:
    if size_bytes > max_bytes:
        raise MessageTooBig(f"a message of {size_bytes} bytes is above this server's limit of {max_bytes}")


async def _send_text(send: Send, frame: bytes) -> None:
    await send({"type": "websocket.send", "text": frame.decode()})
