"""The `/ws` endpoint: one connection is one session, its messages answered in order."""

import logging
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from pydantic_core import PydanticSerializationError

from openenv.core.env_server.sessions import Session, Sessions
from openenv.core.env_server.wire import error_frame, observation_frame, read_request, state_frame
from openenv.core.errors import EnvironmentFault, RequestRefused

log = logging.getLogger(__name__)

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]


class WebSocketEndpoint:
    """An ASGI application that plays sessions over WebSocket connections."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Accept the connection, open its session, answer until either side closes, then end the session."""
        await receive()  # websocket.connect
        await send({"type": "websocket.accept"})
        try:
            session = await self._sessions.open()
        except RequestRefused as error:
            await _send_text(send, error_frame(error))
            await send({"type": "websocket.close", "code": 1000})
            return
        try:
            await self._converse(session, receive, send)
        finally:
            await self._sessions.end(session)

    async def _converse(self, session: Session, receive: Receive, send: Send) -> None:
        while (message := await receive())["type"] == "websocket.receive":
            frame = message.get("text")
            answer = await reply(session, message.get("bytes", b"") if frame is None else frame)
            if answer is None:
                await send({"type": "websocket.close", "code": 1000})
                return
            await _send_text(send, answer)


async def reply(session: Session, frame: str | bytes) -> bytes | None:
    """The frame that answers `frame`, or None when it asks to close. Never raises what a client caused."""
    try:
        request = read_request(frame)
        if request.type == "step":
            return observation_frame(await session.step(request.data))
        if request.type == "reset":
            return observation_frame(await session.reset(request.data))
        if request.type == "state":
            return state_frame(await session.state())
        return None
    except RequestRefused as error:
        return error_frame(error)
    except (PydanticSerializationError, TypeError) as error:
        log.warning("session %s: the answer cannot be serialised: %s", session.id, error)
        return error_frame(EnvironmentFault(str(error)))


async def _send_text(send: Send, frame: bytes) -> None:
    await send({"type": "websocket.send", "text": frame.decode()})
