"""A client that waits for a session on a full server: it is told so, and its place goes to the next when it leaves."""

import asyncio
from typing import Any

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
    if sessions.takes_place_now():
        return await sessions.open_in_place(manner=manner)
    queued: asyncio.Future[int] = asyncio.get_running_loop().create_future()
    opening = asyncio.ensure_future(sessions.open(manner=manner, queued=queued.set_result))
    leaving: asyncio.Future[bool] | None = None
    try:
        await _first_of(opening, queued)
        if not queued.done():
            return opening.result()
        if extended:
            told = {"position": queued.result(), "wait_s": sessions.config.max_wait_s}
            await send({"type": "websocket.send", "text": orjson.dumps({"type": "queued", "data": told}).decode()})
        leaving = asyncio.ensure_future(connection.until_ended())
        await _first_of(opening, leaving)
        if opening.done():
            return opening.result()
        raise SessionFault("the client left the queue")
    finally:
        if leaving is not None:
            leaving.cancel()
        if not opening.done():
            opening.cancel()


async def _first_of(*awaited: "asyncio.Future[Any]") -> None:
    await asyncio.wait(awaited, return_when=asyncio.FIRST_COMPLETED)
