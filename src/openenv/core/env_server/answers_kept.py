"""The answers that a session has given and remembers, for a client that asks again under the same id."""

import asyncio
from collections.abc import Iterable

from openenv.core.env_server.verbs import Answer
from openenv.core.errors import RequestRefused

IN_FLIGHT = 16
"""Answers that a session remembers at least: a client has no more requests than this under way."""
_BYTES_KEPT = 2 << 20
"""Twice as many are remembered where they are no larger than this together."""

Known = Answer | RequestRefused | asyncio.Future[Answer]


def settled(known: Known) -> Answer:
    """The answer that was recorded; raises it when it was an error."""
    if isinstance(known, asyncio.Future):
        return known.result()
    if isinstance(known, RequestRefused):
        raise known
    return known


class AnswersKept:
    """The newest answers by request id, for a client that asks again. A request that is being worked on has a future,
    and is never forgotten.

    They are kept in two generations of IN_FLIGHT each, oldest first, so that many are forgotten at once; where they are
    large, one goes for each that comes.
    """

    def __init__(self) -> None:
        self.newer: dict[str, Known] = {}
        self.older: dict[str, Known] = {}
        self.full_at = IN_FLIGHT
        """Newer ones from which on each that comes makes room: with each where they are large."""
        self._most = IN_FLIGHT
        """In the newer generation: requests that are under way take no other's place."""
        self._may_be_under_way = False
        """Whether any of them may be."""

    def find(self, key: str) -> "Known | None":
        """What is known of a request."""
        return self.newer.get(key) or self.older.get(key)

    def keep(self, key: str, known: "Known") -> None:
        """What is known of a request from now on; the oldest make way.

        Of an error only what it says: the frames that it went through would keep the session, and all that an author's
        step had in hand.
        """
        if isinstance(known, RequestRefused):
            known.__traceback__ = known.__cause__ = known.__context__ = None
        elif isinstance(known, asyncio.Future):
            self._may_be_under_way = True
        self.newer[key] = known
        if len(self.newer) >= self.full_at:
            self.make_room()

    def make_room(self) -> None:
        """Forget the older generation, or, where answers are large, one of it."""
        if len(self.newer) < self._most:
            oldest = next((key for key, known in self.older.items() if not is_under_way(known)), None)
            if oldest is not None:
                del self.older[oldest]
            return
        under_way: dict[str, Known] = {}
        if self._may_be_under_way:
            under_way = {key: known for key, known in self.older.items() if is_under_way(known)}
            self._may_be_under_way = any(map(is_under_way, [*under_way.values(), *self.newer.values()]))
        self.older, self.newer = self.newer, under_way
        self._most = IN_FLIGHT + len(self.newer)
        self.full_at = 0 if _size_bytes(self.older.values()) > _BYTES_KEPT else self._most


def is_under_way(known: "Known") -> bool:
    """Whether its answer is still to come."""
    return isinstance(known, asyncio.Future) and not known.done()


def _size_bytes(known: Iterable["Known"]) -> int:
    size = 0
    for one in known:
        if isinstance(one, Answer):
            size += len(one.data)
            if one.arrays:
                size += sum(map(len, one.arrays))
        elif isinstance(one, asyncio.Future) and not (is_under_way(one) or one.cancelled() or one.exception()):
            size += _size_bytes([one.result()])
    return size
