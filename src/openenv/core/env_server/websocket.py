"""The `/ws` endpoint: a connection plays one session, in the published dialect or the extended one.

Published: the session lives and ends with its connection. Extended (chosen by subprotocol): requests carry ids, answers
their validity, and the session waits for its client when the connection breaks.
"""

from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qs

import orjson

from openenv.core.env_server.asgi import Receive, Scope, Send
from openenv.core.env_server.asgi_connection import AsgiConnection, Connection
from openenv.core.env_server.conversation import Conversation
from openenv.core.env_server.json_rpc import JsonRpc
from openenv.core.env_server.manner import Manner, Query, manner_of
from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.env_server.waiting_line import session_in_turn
from openenv.core.env_server.websocket_connection import EXTENSION, WebSocketConnection
from openenv.core.env_server.wire import error_frame, extended_error_frame
from openenv.core.errors import RequestRefused
from openenv.core.protocol import ARRAYS_SUBPROTOCOL, SUBPROTOCOL


class WebSocketEndpoint:
    """An ASGI application that plays sessions over WebSocket connections."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._rpc = JsonRpc(sessions)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Accept the connection, open or find its session, answer until either side closes."""
        await receive()  # websocket.connect
        offered = scope.get("subprotocols", ())
        chosen = next((name for name in (ARRAYS_SUBPROTOCOL, SUBPROTOCOL) if name in offered), None)
        extended = chosen is not None
        await send({"type": "websocket.accept", "subprotocol": chosen})
        connection = _connection(scope, receive, send)
        try:
            asked = scope.get("query_string", b"")
            query = parse_qs(asked.decode("latin-1"), keep_blank_values=True) if asked else {}
            manner = manner_of(query, packs_arrays=chosen == ARRAYS_SUBPROTOCOL)
            session = await self._session(query, connection, send, manner, extended=extended)
        except RequestRefused as error:
            await _send_text(send, extended_error_frame(error, None) if extended else error_frame(error))
            await connection.close()
            return
        said_goodbye = False
        try:
            if extended:
                await _send_text(send, self._welcome(session, manner))
            arrays = manner.packs_arrays
            conversation = Conversation(self._sessions, self._rpc, session, extended=extended, arrays=arrays)
            said_goodbye = await connection.answer_with(conversation.reply)
        finally:
            await self._sessions.detach(session, connection, keep=extended and not said_goodbye)
            await connection.close()

    def _welcome(self, session: Session, manner: Manner) -> bytes:
        about: dict[str, Any] = {"session_id": session.id, "grace_s": self._sessions.config.grace_s}
        if manner.vector is not None:
            where = {"execution": self._sessions.execution, "num_workers": self._sessions.commons.num_workers}
            about["vector"] = {**asdict(manner.vector), **where}
        return orjson.dumps({"type": "session", "data": about})

    async def _session(
        self, query: Query, connection: Connection, send: Send, manner: Manner, *, extended: bool
    ) -> Session:
        """The session that the URL names, or a new one."""
        named = query.get("session_id", [""])
        if named[0]:
            session = self._sessions.find(named[0])
        else:
            session = await session_in_turn(self._sessions, connection, send, manner, extended=extended)
        self._sessions.attach(session, connection, take_over=extended)
        return session


def _connection(scope: Scope, receive: Receive, send: Send) -> Connection:
    """Our own server hands over the connection itself; under another everything passes through ASGI."""
    direct: WebSocketConnection | None = scope.get("extensions", {}).get(EXTENSION)
    return AsgiConnection(receive, send) if direct is None else direct.take_over()


async def _send_text(send: Send, frame: bytes) -> None:
    await send({"type": "websocket.send", "text": frame.decode()})
