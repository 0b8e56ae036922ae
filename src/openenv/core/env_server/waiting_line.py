"""A client that waits for a session on a full server: it is told so, and its place goes to the next when it leaves."""

import asyncio
from collections import deque

import orjson

from openenv.core.env_server.asgi import Message, Receive, Send
from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.errors import SessionFault

_MOST_KEPT = 16
"""Frames that a waiting client may send ahead; the socket holds back what comes after them."""


class PatientReceive:
    """An ASGI `receive` that looks ahead while its client waits, so that a client that leaves is noticed."""

    def __init__(self, receive: Receive) -> None:
        self._receive = receive
        self._ahead: deque[Message] = deque()

    async def __call__(self) -> Message:
        """The next message."""
        return self._ahead.popleft() if self._ahead else await self._receive()

    async def until_gone(self) -> None:
        """Return when the client has left."""
        while len(self._ahead) < _MOST_KEPT:
            message = await self._receive()
            self._ahead.append(message)
            if message["type"] == "websocket.disconnect":
                return
        await asyncio.get_running_loop().create_future()  # as far ahead as we look: its session will come, or the limit


async def session_in_turn(sessions: Sessions, receive: PatientReceive, send: Send, *, extended: bool) -> Session:
    """A new session, waited for where the server is full.

    In the extended dialect the client is told how long it may have to wait. Raises what `Sessions.open` does, and
    SessionFault when the client left.
    """
    if not sessions.must_wait:
        return await sessions.open()
    if extended:
        told = {"type": "queued", "data": {"position": sessions.num_waiting + 1, "wait_s": sessions.config.max_wait_s}}
        await send({"type": "websocket.send", "text": orjson.dumps(told).decode()})
    opening = asyncio.ensure_future(sessions.open())
    leaving = asyncio.ensure_future(receive.until_gone())
    try:
        await asyncio.wait({opening, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            return opening.result()
        raise SessionFault("the client left the queue")
    finally:
        leaving.cancel()
        if not opening.done():
            opening.cancel()
