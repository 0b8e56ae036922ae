"""Sends what happens in a session to a WebSocket that watches it."""

import asyncio
import contextlib
from collections.abc import Callable, Sequence

from starlette.websockets import WebSocket, WebSocketDisconnect

from openenv.core.env_server.sessions.session import Session
from openenv.core.env_server.sessions.watchers import Watched, WatchQueue

_FRAME_S = 0.1
"""From one message to the next. What happens meanwhile comes together."""
_CAPACITY = 200
"""Verbs of one message; of more the oldest are left out, and counted."""

MessageOf = Callable[[Sequence[Watched], int], bytes]
"""The JSON of a message, from verbs and the number of those left out."""


async def relay(websocket: WebSocket, session: Session, message_of: MessageOf) -> bool:
    """Send a message at once, without verbs, and one after each tenth of a second in which something happened, until
    the session ends or the watcher leaves. What a watcher sends is ignored. Returns whether the session has ended."""
    queue = WatchQueue(_CAPACITY)
    session.watchers.add(queue)
    leaving = asyncio.create_task(_left(websocket))
    try:
        await websocket.send_text(message_of([], 0).decode())
        while not leaving.done():
            verbs, num_dropped = queue.take()
            if verbs:
                await websocket.send_text(message_of(verbs, num_dropped).decode())
            if queue.has_ended:
                return True
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(leaving), _FRAME_S)
    except (WebSocketDisconnect, RuntimeError, OSError):  # it has left
        pass
    finally:
        session.watchers.discard(queue)
        leaving.cancel()
    return False


async def _left(websocket: WebSocket) -> None:
    with contextlib.suppress(WebSocketDisconnect, RuntimeError):
        while True:
            await websocket.receive()
