"""Bytes of WebSocket frames, right and wrong, and a peer on a plain socket that sends and reads them."""

import socket
import struct
from collections.abc import Iterable
from typing import NamedTuple

from openenv.core.net.frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT, close_payload

MASK = b"\x37\xfa\x21\x3d"
VALID_CODES = (1000, 1001, 1002, 1003, 1007, 1008, 1009, 1010, 1011, 1012, 1013, 1014, 3000, 3999, 4000, 4999)
INVALID_CODES = (0, 999, 1004, 1005, 1006, 1015, 1016, 1100, 2000, 2999, 5000, 65535)
NOT_UTF8 = {
    "a lone continuation byte": b"\x80",
    "an overlong NUL": b"\xc0\x80",
    "a surrogate": b"\xed\xa0\x80",
    "a code point above U+10FFFF": b"\xf4\x90\x80\x80",
    "a character cut short": b"\xe2\x82",
    "a byte that begins nothing": b"\xfe",
    "UTF-16 with its mark": b"\xff\xfe{\x00}\x00",
    "Latin-1": "é".encode("latin-1"),
}
"""Each as the end of a text."""


class Wire:
    """Makes frames of one side of a connection."""

    def __init__(self, *, masked: bool) -> None:
        self.masked = masked

    def frame(self, opcode, payload=b"", *, final=True, reserved=0, masked=None, length=None, size=None):
        """One frame. length: in its head, in place of the payload's. size: bytes of that length, 1, 2 or 8."""
        masked = self.masked if masked is None else masked
        length = len(payload) if length is None else length
        size = size or (1 if length < 126 else 2 if length < 1 << 16 else 8)
        first, bit = final << 7 | reserved << 4 | opcode, masked << 7
        head = {
            1: lambda: struct.pack("!BB", first, bit | length),
            2: lambda: struct.pack("!BBH", first, bit | 126, length),
            8: lambda: struct.pack("!BBQ", first, bit | 127, length),
        }[size]()
        if not masked:
            return head + payload
        return head + MASK + bytes(byte ^ MASK[index % 4] for index, byte in enumerate(payload))

    def fragments(self, opcode, *payloads, between=b""):
        """One message in fragments."""
        last = len(payloads) - 1
        return between.join(
            self.frame(opcode if index == 0 else CONTINUATION, payload, final=index == last)
            for index, payload in enumerate(payloads)
        )

    def close(self, code, reason=b""):
        """A close frame with any code."""
        return self.frame(CLOSE, struct.pack("!H", code) + reason)

    def broken(self) -> dict[str, tuple[bytes, int]]:
        """What breaks the framing, sections 2 to 5 and the masks, and the code that it is closed with."""
        text, frame = b"text", self.frame
        broken = {
            "a ping of 126 bytes": frame(PING, b"p" * 126),
            "a pong of 126 bytes": frame(PONG, b"p" * 126),
            "a ping in fragments": frame(PING, b"p", final=False),
            "a pong in fragments": frame(PONG, b"p", final=False),
            "a close frame in fragments": frame(CLOSE, close_payload(1000), final=False),
            **{f"reserved bits {bits} of a text": frame(TEXT, text, reserved=bits) for bits in range(1, 8)},
            "a reserved bit of a ping": frame(PING, reserved=4),
            "a reserved bit of a close frame": frame(CLOSE, close_payload(1000), reserved=2),
            **{f"opcode {opcode}": frame(opcode, text) for opcode in (3, 4, 5, 6, 7, 11, 12, 13, 14, 15)},
            "a continuation of nothing": frame(CONTINUATION, text),
            "the first continuation of nothing": frame(CONTINUATION, text, final=False),
            "a text within fragments": frame(TEXT, text, final=False) + frame(TEXT, text),
            "a text within empty fragments": frame(TEXT, final=False) + frame(TEXT, text),
            "a binary within fragments": frame(TEXT, text, final=False) + frame(BINARY, text, final=False),
            "a text with the other side's masking": frame(TEXT, text, masked=not self.masked),
            "a ping with the other side's masking": frame(PING, masked=not self.masked),
            "a close frame with the other side's masking": frame(CLOSE, masked=not self.masked),
        }
        return {name: (data, 1002) for name, data in broken.items()}

    def bad_text(self) -> dict[str, tuple[bytes, int]]:
        """Texts that are no UTF-8, section 6."""
        whole = {name: self.frame(TEXT, b'{"type": "' + bad) for name, bad in NOT_UTF8.items()}
        parts = {
            "a surrogate across fragments": self.fragments(TEXT, b"\xed\xa0", b"\x80"),
            "a character that the last fragment cuts": self.fragments(TEXT, b"a", b"\xe2\x82"),
        }
        return {name: (data, 1007) for name, data in (whole | parts).items()}

    def bad_close(self) -> dict[str, tuple[bytes, int]]:
        """Close frames that section 7.4 does not allow."""
        return {
            **{f"a close frame with code {code}": (self.close(code), 1002) for code in INVALID_CODES},
            "a close frame of one byte": (self.frame(CLOSE, b"\x03"), 1002),
            "a close frame of 126 bytes": (self.close(1000, b"r" * 124), 1002),
            "a close frame whose reason is no UTF-8": (self.close(1000, b"\xed\xa0\x80"), 1007),
        }


class Received(NamedTuple):
    """One frame that the other side sent."""

    opcode: int
    payload: bytes

    @property
    def code(self) -> int:
        """The code of a close frame."""
        return int.from_bytes(self.payload[:2], "big")


class RawPeer:
    """One side of a WebSocket on a plain socket, after the handshake."""

    def __init__(self, connection: socket.socket, rest: bytes = b"") -> None:
        self._connection = connection
        self._buffer = rest

    def send(self, data: bytes, chop: int = 0) -> None:
        """Send bytes; with `chop`, in pieces of that size that arrive one by one."""
        self._connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        for start in range(0, len(data), chop or len(data) or 1):
            self._connection.sendall(data[start : start + (chop or len(data))])

    def receive(self) -> Received | None:
        """The next frame; None: the other side has closed the connection. Raises ValueError for half a frame."""
        head = self._take(2)
        if not head:
            return None
        length = head[1] & 0x7F
        if length >= 126:
            length = int.from_bytes(self._take(2 if length == 126 else 8), "big")
        mask = self._take(4) if head[1] & 0x80 else b""
        payload = self._take(length)
        if mask:
            payload = bytes(byte ^ mask[index % 4] for index, byte in enumerate(payload))
        return Received(head[0] & 0x0F, payload)

    def until_closed(self) -> list[Received]:
        """All frames up to the end of the connection."""
        frames = []
        while (frame := self.receive()) is not None:
            frames.append(frame)
        return frames

    def until(self, wanted: Iterable[Received]) -> list[Received]:
        """All frames until those wanted have come, in any order."""
        missing, frames = list(wanted), []
        while missing:
            frame = self.receive()
            assert frame is not None, f"the connection ended before {missing}, after {frames}"
            frames.append(frame)
            if frame in missing:
                missing.remove(frame)
        return frames

    def _take(self, size: int) -> bytes:
        while len(self._buffer) < size:
            try:
                data = self._connection.recv(1 << 20)
            except ConnectionResetError:
                data = b""
            if not data:
                if self._buffer:
                    raise ValueError(f"half a frame at the end: {self._buffer!r}")
                return b""
            self._buffer += data
        taken, self._buffer = self._buffer[:size], self._buffer[size:]
        return taken
