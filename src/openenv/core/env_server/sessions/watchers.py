"""Watchers of a session: they see each episode verb and its outcome, and change nothing."""

from collections import deque
from dataclasses import dataclass
from typing import Any, Protocol

from openenv.core.env_server.runner.env_runner import EncodedResponse
from openenv.core.errors import RequestRefused


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


class WatchQueue:
    """Keeps the newest verbs of a session for a watcher that reads more slowly than they come."""

    def __init__(self, capacity: int) -> None:
        """capacity: verbs kept; of more the oldest are dropped and counted."""
        self._verbs: deque[Watched] = deque(maxlen=capacity)
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
        self.num_dropped += len(self._verbs) == self._verbs.maxlen
        self._verbs.append(watched)

    def take(self) -> tuple[list[Watched], int]:
        """The verbs since the last call, oldest first, and how many others were dropped."""
        verbs, num_dropped = list(self._verbs), self.num_dropped
        self._verbs.clear()
        self.num_dropped = 0
        return verbs, num_dropped
