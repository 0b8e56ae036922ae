"""Sends what happens in a session to a WebSocket that watches it."""

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from starlette.websockets import WebSocket, WebSocketDisconnect

from openenv.core.env_server.runner.env_runner import EncodedResponse
from openenv.core.env_server.sessions.session import Session
from openenv.core.errors import RequestRefused
from openenv.core.wire.server_codec import error_json

_FRAME_S = 0.1
"""From one message to the next. What happens meanwhile comes together."""
_CAPACITY = 200
"""Verbs of one message; of more the oldest are left out, and counted."""
_MOST_BYTES = 16 << 20
"""Size of the verbs that are kept for one watcher; a single larger one is kept, too."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A verb of a session, with its outcome."""

    verb: str
    data: dict[str, Any]
    outcome: EncodedResponse | RequestRefused


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


class WatchQueue:
    """Keeps the newest verbs of a session for a watcher that reads more slowly than they come."""

    def __init__(self, capacity: int) -> None:
        """capacity: verbs kept; of more the oldest are dropped and counted."""
        self._capacity = capacity
        self._verbs: deque[tuple[Watched, int]] = deque()
        """With the bytes of each."""
        self._size_bytes = 0
        self.num_dropped = 0
        """Verbs dropped since the last `take`."""
        self.has_ended = False

    def on_response(self, verb: str, data: dict[str, Any], response: EncodedResponse) -> None:
        """Keep the response."""
        self._put(Watched(verb, data, response))

    def on_error(self, verb: str, data: dict[str, Any], error: RequestRefused) -> None:
        """Keep the error."""
        self._put(Watched(verb, data, error))

    def on_end(self) -> None:
        """Note the end."""
        self.has_ended = True

    def _put(self, watched: Watched) -> None:
        size_bytes = _size_bytes(watched)
        self._verbs.append((watched, size_bytes))
        self._size_bytes += size_bytes
        while len(self._verbs) > self._capacity or (self._size_bytes > _MOST_BYTES and len(self._verbs) > 1):
            self._size_bytes -= self._verbs.popleft()[1]
            self.num_dropped += 1

    def take(self) -> tuple[list[Watched], int]:
        """The verbs since the last call, oldest first, and how many others were dropped."""
        verbs, num_dropped = [watched for watched, _ in self._verbs], self.num_dropped
        self._verbs.clear()
        self._size_bytes = self.num_dropped = 0
        return verbs, num_dropped


def _size_bytes(watched: Watched) -> int:
    """The bytes of a verb's data and of its response, as they were on the wire."""
    outcome = watched.outcome
    size_bytes = len(outcome.data) + sum(map(len, outcome.arrays)) if isinstance(outcome, EncodedResponse) else 0
    return size_bytes + len(error_json(watched.data))
