"""Snapshots of a server, by token. Clients get only the random token, so that a server loads none but its own."""

import secrets
from collections import OrderedDict

from openenv.core.errors import MessageTooBig, SessionFault


class Snapshots:
    """The newest snapshots, limited in number and in total bytes; the oldest are evicted."""

    def __init__(self, max_number: int, max_bytes: int) -> None:
        self._max_number = max_number
        self._max_bytes = max_bytes
        self._by_token: OrderedDict[str, bytes] = OrderedDict()
        self._size_bytes = 0

    def keep(self, snapshot: bytes) -> str:
        """Keep a snapshot and return its token. Raises MessageTooBig for one above the limit of bytes."""
        if len(snapshot) > self._max_bytes:
            raise MessageTooBig(
                f"a snapshot of {len(snapshot)} bytes is above this server's limit of {self._max_bytes}: "
                "serve with a larger max_snapshot_bytes"
            )
        while len(self._by_token) >= self._max_number or self._size_bytes + len(snapshot) > self._max_bytes:
            _, oldest = self._by_token.popitem(last=False)
            self._size_bytes -= len(oldest)
        token = secrets.token_urlsafe(24)
        self._by_token[token] = snapshot
        self._size_bytes += len(snapshot)
        return token

    def find(self, token: str) -> bytes:
        """The snapshot of a token. Raises SessionFault if it is unknown or was evicted."""
        snapshot = self._by_token.get(token)
        if snapshot is None:
            raise SessionFault(
                f"Unknown snapshot token: only the newest {self._max_number} are kept, {self._max_bytes} bytes in all"
            )
        return snapshot
