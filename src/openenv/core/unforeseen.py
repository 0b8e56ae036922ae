"""Random bytes that nobody can foretell: the system's, drawn many at a time, since each system call takes its time."""

import os
import uuid
from collections import deque

_SIZE = 16
_DRAWN_SIZE = 4096
_pieces: deque[bytes] = deque()
os.register_at_fork(after_in_child=_pieces.clear)  # what parent and child both had would be drawn twice


def unforeseen_bytes() -> bytes:
    """16 bytes that are given to nobody else, whichever thread asks."""
    while True:
        try:
            return _pieces.popleft()
        except IndexError:
            drawn = os.urandom(_DRAWN_SIZE)
            _pieces.extend(drawn[at : at + _SIZE] for at in range(0, _DRAWN_SIZE, _SIZE))


def new_uuid() -> str:
    """A random UUID (RFC 9562, version 4)."""
    return str(uuid.UUID(bytes=unforeseen_bytes(), version=4))
