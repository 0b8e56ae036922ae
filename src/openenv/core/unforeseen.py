"""Random bytes that nobody can foretell: the system's, drawn many at a time, since each system call takes its time."""

import os
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
    drawn = bytearray(unforeseen_bytes())
    drawn[6] = drawn[6] & 0x0F | 0x40
    drawn[8] = drawn[8] & 0x3F | 0x80
    text = drawn.hex()
    return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"
