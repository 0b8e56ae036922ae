"""A client that waits for a session on a full server: it is told so, and its place goes to the next when it leaves."""

import asyncio

import orjson

from openenv.core.env_server.asgi import Send
from openenv.core.env_server.asgi_connection import Connection
from openenv.core.env_server.manner import Manner
from openenv.core.env_server.session import Session
from openenv.core.env_server.sessions import Sessions
from openenv.core.errors import SessionFault


async def session_in_turn(
    sessions: Sessions, connection: Connection, send: Send, manner: Manner, *, extended: bool
) -> Session:
    """A new session, waited for where the server is full.

    manner: how the session is to be made. In the extended dialect the client is told how long it may have to wait.
    Raises what `Sessions.open` does, and SessionFault when the client left.
    """
    if not sessions.must_wait:
        return await sessions.open(manner=manner)
    if extended:
        told = {"type": "queued", "data": {"position": sessions.num_waiting + 1, "wait_s": sessions.config.max_wait_s}}
        await send({"type": "websocket.send", "text": orjson.dumps(told).decode()})
    opening = asyncio.ensure_future(sessions.open(manner=manner))
    leaving = asyncio.ensure_future(connection.until_ended())
    try:
        await asyncio.wait({opening, leaving}, return_when=asyncio.FIRST_COMPLETED)
        if opening.done():
            return opening.result()
        raise SessionFault("the client left the queue")
    finally:
        leaving.cancel()
        if not opening.done():
            opening.cancel()
