"""Responses of a session by request id, for a client that repeats a request: idempotency of verbs."""

import asyncio

from openenv.core.env_server.runner.env_runner import EncodedResponse
from openenv.core.errors import RequestRefused
from openenv.core.wire.constants import MAX_IN_FLIGHT

_MAX_BYTES = 1 << 20
"""Twice as many responses are kept while the newest are no larger than this together."""

Result = EncodedResponse | RequestRefused
"""What a request ended with: its response, or an error without a traceback."""
Pending = asyncio.Future[Result]
"""A request in progress, or one that was. Its future raises nothing: errors are results."""


class ResponseCache:
    """The newest results. Requests in progress are never evicted."""

    def __init__(self) -> None:
        self._results: dict[str, Result | Pending] = {}
        self._max_results = 2 * MAX_IN_FLIGHT
        self.get = self._results.get
        """The result of a request, or None."""

    def put(self, key: str, result: Result | Pending) -> None:
        """Keep a result. The oldest are evicted in batches, or one by one if results are large."""
        results = self._results
        results[key] = result
        if len(results) > self._max_results:
            self._evict()

    def _evict(self) -> None:
        oldest = list(self._results.items())[:-MAX_IN_FLIGHT]
        for key, result in oldest:
            if not is_pending(result):
                del self._results[key]
        is_large = sum(map(_size_bytes, self._results.values())) > _MAX_BYTES
        self._max_results = MAX_IN_FLIGHT if is_large else 2 * MAX_IN_FLIGHT


def is_pending(result: Result | Pending) -> bool:
    """Whether the request is still in progress."""
    return isinstance(result, asyncio.Future) and not result.done()


def _size_bytes(result: Result | Pending) -> int:
    if isinstance(result, asyncio.Future):
        return 0 if is_pending(result) or result.cancelled() else _size_bytes(result.result())
    return len(result.data) + sum(map(len, result.arrays)) if isinstance(result, EncodedResponse) else 0
