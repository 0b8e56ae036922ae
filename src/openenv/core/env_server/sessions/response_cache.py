"""Responses of a session by request id, for a client that repeats a request: idempotency of verbs."""

import asyncio
from typing import Any

from openenv.core.env_server.runner.env_runner import EncodedResponse
from openenv.core.errors import InvalidMessage, RequestRefused
from openenv.core.wire.arrays import read_frame
from openenv.core.wire.constants import MAX_IN_FLIGHT

_MAX_BYTES = 1 << 20
"""Twice as many responses are kept while the newest are no larger than this together."""

Result = EncodedResponse | RequestRefused
"""What a request ended with: its response, or an error without a traceback."""
Pending = asyncio.Future[Result]
"""A request in progress, or one that was. Its future raises nothing: errors are results."""
Body = bytes | str | int | None
"""`SessionRequest.body`."""


class ResponseCache:
    """The newest results. Requests in progress are never evicted."""

    def __init__(self) -> None:
        self._results: dict[str, Result | Pending] = {}
        self._bodies: dict[str, Body] = {}
        self._max_results = 2 * MAX_IN_FLIGHT
        self.get = self._results.get
        """The result of a request, or None."""

    def check_repeats(self, key: str, body: Body) -> None:
        """Raises InvalidMessage if a request with a known key is another than the first. Unknown bodies count as equal.

        Two frames are one request if their data are equal, whatever their time limits and their order of keys.
        """
        first = self._bodies.get(key)
        if first is None or body is None or first == body or isinstance(first, int) != isinstance(body, int):
            return
        if not (isinstance(first, int) or isinstance(body, int)):
            data, first_data = _data_in(body), _data_in(first)
            if data == first_data or str(data) == str(first_data):  # NaN equals itself only as text
                return
        verb, _, request_id = key.partition(" ")
        raise InvalidMessage(f"id={request_id!r} names another {verb} already: give each request an id of its own")

    def put(self, key: str, result: Result | Pending, body: Body = None) -> None:
        """Keep a result, and what its request was.

        The oldest are evicted in batches, or one by one if results are large.
        """
        results = self._results
        results[key] = result
        self._bodies[key] = body
        if len(results) > self._max_results:
            self._evict()

    def _evict(self) -> None:
        oldest = list(self._results.items())[:-MAX_IN_FLIGHT]
        for key, result in oldest:
            if not is_pending(result):
                del self._results[key], self._bodies[key]
        is_large = sum(map(_size_bytes, self._results.values())) > _MAX_BYTES
        self._max_results = MAX_IN_FLIGHT if is_large else 2 * MAX_IN_FLIGHT


def _data_in(frame: bytes | str) -> Any:
    return read_frame(frame).get("data") or {}


def is_pending(result: Result | Pending) -> bool:
    """Whether the request is still in progress."""
    return isinstance(result, asyncio.Future) and not result.done()


def _size_bytes(result: Result | Pending) -> int:
    if isinstance(result, asyncio.Future):
        return 0 if is_pending(result) or result.cancelled() else _size_bytes(result.result())
    if isinstance(result, RequestRefused):
        return len(str(result))
    return len(result.data) + sum(map(len, result.arrays))
