"""Watchers of a session: they see each episode verb and its outcome, and change nothing."""

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from openenv.core.env_server.runner.env_runner import EncodedResponse
from openenv.core.errors import RequestRefused
from openenv.core.wire.server_codec import error_json


class Watcher(Protocol):
    """Sees what happens in a session. Its methods return at once."""

    def on_response(self, verb: str, data: dict[str, Any], response: EncodedResponse) -> None:
        """A reset, a step or a call of a tool has ended with a response."""

    def on_error(self, verb: str, data: dict[str, Any], error: RequestRefused) -> None:
        """It has ended with an error."""

    def on_end(self) -> None:
        """The session has ended."""


@dataclass(frozen=True, slots=True)
class Watched:
    """A verb of a session, with its outcome."""

    verb: str
    data: dict[str, Any]
    outcome: EncodedResponse | RequestRefused


_MOST_BYTES = 16 << 20
"""Size of the verbs that are kept for one watcher; a single larger one is kept, too."""


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
