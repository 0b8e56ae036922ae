"""WebSocket framing (RFC 6455, section 5) for connections whose handshake is done: bytes to messages, and back.

No extension is in use. A small message is read in about a microsecond, where a general parser takes ten times that.
"""

import os
import struct
import sys
from collections.abc import Iterator
from dataclasses import dataclass

from websockets.frames import apply_mask  # type: ignore[attr-defined]  # the compiled one, where there is one

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0x0, 0x1, 0x2, 0x8, 0x9, 0xA
_KNOWN = frozenset({CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG})
_FINAL = 0x80
_MASKED = 0x80
_WHOLE_TEXT = _FINAL | TEXT
_LONGEST_CONTROL = 125
_HEAD_BYTES = 256
_MAX_FRAGMENTS = 1000
LONG = 1 << 16
"""Bytes of a payload from which a frame is long."""
_MEDIUM_HEAD = struct.Struct("!BBH")

NORMAL, GOING_AWAY, PROTOCOL_ERROR, NO_STATUS = 1000, 1001, 1002, 1005
INVALID_PAYLOAD, TOO_BIG, INTERNAL_ERROR, SERVICE_RESTART = 1007, 1009, 1011, 1012
_REGISTERED_CODES = frozenset({1000, 1001, 1002, 1003, *range(1007, 1015)})
"""Codes below 3000 that a close frame may carry (section 7.4.1, and those that IANA has added)."""


class FrameError(Exception):
    """The other side broke the protocol; the connection is to be closed with `code`."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code
        self.reason = reason


@dataclass(slots=True)
class WebSocketMessage:
    """A whole message, or a control frame."""

    opcode: int
    data: bytes
    size_above: int = 0
    """Bytes of a message above the limit, of which `data` is the head; 0: it is whole."""


class FrameReader:
    """Bytes in, whole messages out; keeps what is not complete yet.

    A client's message above the limit breaks the protocol. Of a server's the head is kept, which
    has the id of its request, and the rest is skipped: the connection, and the session with it, lives on.
    """

    def __init__(self, max_size: int, *, from_client: bool) -> None:
        """max_size: bytes of a message. from_client: whether frames come masked, as a client's must."""
        self._max_size = max_size
        self._from_client = from_client
        self.has_more = False
        """Whether `feed` has left frames that it did not read."""
        self.num_missing = 0
        """Bytes that a frame lacks whose head has come; 0: it is not known."""
        self._buffer = bytearray()
        self._parts = bytearray()
        self._num_parts = self._parts_size = 0
        self._opcode = CONTINUATION
        """Of the message in `_parts`; CONTINUATION: there is none."""
        self._is_too_big = False
        """Whether that message is above the limit, and only its head is kept."""
        self._to_pass = 0
        """Bytes still to come of a frame that is skipped."""
        self._passes_last = False
        """Whether that frame is its message's last."""

    def whole_text(self, data: bytes) -> bytes | None:
        """The message in data that are exactly one text frame. None: they are anything else, for `feed` to read."""
        size = len(data)
        if size < 6 or data[0] != _WHOLE_TEXT or self._buffer or self._opcode:
            return None
        length, start = (data[1] - _MASKED, 6) if self._from_client else (data[1], 2)
        if length == 126:
            length = data[2] << 8 | data[3]
            start += 2
        elif length > 126:
            return None
        if size != start + length or length > self._max_size:
            return None
        text = apply_mask(data[start:], data[start - 4 : start]) if self._from_client else data[start:]
        return text if text.isascii() or _is_utf8(text) else None

    def feed(self, data: bytes, max_frames: int = sys.maxsize) -> Iterator[WebSocketMessage]:
        """Yield the messages that these bytes complete, from at most `max_frames` frames. Raises FrameError.

        To be called with no bytes while `has_more`, to go on with the rest.
        """
        self._buffer += data
        self.has_more = False
        self.num_missing = 0
        start = 0
        try:
            for _ in range(max_frames):
                frame = self._frame_at(start)
                if frame is None:
                    return
                opcode, is_final, payload, start = frame
                message = self._message(opcode, is_final, payload)
                if message is not None:
                    yield message
            self.has_more = len(self._buffer) > start
        finally:
            del self._buffer[:start]

    def _frame_at(self, start: int) -> tuple[int, bool, bytes, int] | None:
        """Opcode, whether it is a message's last, payload and end of the frame at `start`; None: not all there yet."""
        buffer = self._buffer
        have = len(buffer) - start
        if self._to_pass:
            return self._piece_at(start, CONTINUATION) if have else None
        if have < 2:
            return None
        first, second = buffer[start], buffer[start + 1]
        opcode = first & 0x0F
        if first & 0x70 or opcode not in _KNOWN:
            raise FrameError(PROTOCOL_ERROR, f"a frame with first byte {first:#x}")
        is_masked = bool(second & _MASKED)
        if is_masked is not self._from_client:
            raise FrameError(PROTOCOL_ERROR, "incorrect masking")
        length, head = second & 0x7F, 2
        if length >= 126:
            size = 2 if length == 126 else 8
            if have < head + size:
                return None
            length = int.from_bytes(buffer[start + head : start + head + size], "big")
            head += size
        if opcode >= CLOSE and (length > _LONGEST_CONTROL or not first & _FINAL):
            raise FrameError(PROTOCOL_ERROR, "a control frame that is too long or in parts")
        if opcode < CLOSE and self._parts_size + length > self._max_size:
            if self._from_client:
                raise FrameError(TOO_BIG, f"a message above the limit of {self._max_size} bytes")
            self._is_too_big, self._to_pass, self._passes_last = True, length, bool(first & _FINAL)
            return self._piece_at(start + head, opcode)
        mask_end = start + head + (4 if is_masked else 0)
        end = mask_end + length
        if len(buffer) < end:
            self.num_missing = end - len(buffer)
            return None
        with memoryview(buffer) as view:  # a slice of the buffer would be another copy
            payload = bytes(view[mask_end:end])
        if is_masked:
            payload = apply_mask(payload, bytes(buffer[mask_end - 4 : mask_end]))
        return opcode, bool(first & _FINAL), payload, end

    def _piece_at(self, start: int, opcode: int) -> tuple[int, bool, bytes, int]:
        """The part that has arrived of a skipped frame, as if it were a frame of its own."""
        payload = bytes(self._buffer[start : start + self._to_pass])
        self._to_pass -= len(payload)
        return opcode, self._passes_last and not self._to_pass, payload, start + len(payload)

    def _message(self, opcode: int, is_final: bool, payload: bytes) -> WebSocketMessage | None:
        """The message that a frame completes, if it does."""
        if opcode >= CLOSE:
            return WebSocketMessage(opcode, payload)
        if (opcode == CONTINUATION) is not bool(self._opcode):
            raise FrameError(PROTOCOL_ERROR, "a continuation of nothing, or a message inside another")
        if is_final and not self._opcode and not self._is_too_big:
            return _checked(WebSocketMessage(opcode, payload))
        self._opcode = self._opcode or opcode
        self._parts_size += len(payload)
        self._num_parts += not self._is_too_big
        if self._num_parts > _MAX_FRAGMENTS:
            raise FrameError(TOO_BIG, f"a message in more than {_MAX_FRAGMENTS} fragments")
        self._parts += payload
        if self._is_too_big:
            del self._parts[_HEAD_BYTES:]
        if not is_final:
            return None
        message = WebSocketMessage(self._opcode, bytes(self._parts), self._parts_size if self._is_too_big else 0)
        self._opcode, self._parts, self._is_too_big = CONTINUATION, bytearray(), False
        self._num_parts = self._parts_size = 0
        return _checked(message)


def _checked(message: WebSocketMessage) -> WebSocketMessage:
    """The message. Raises FrameError for a text that is no UTF-8; the head of a long one may end within a character."""
    if message.opcode == TEXT and not message.size_above and not _is_utf8(message.data):
        raise FrameError(INVALID_PAYLOAD, "a text that is no UTF-8")
    return message


def _is_utf8(text: bytes) -> bool:
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def server_frame(opcode: int, payload: bytes) -> bytes:
    """A frame as a server sends it: whole, without a mask."""
    length = len(payload)
    if length < 126:
        return bytes((_FINAL | opcode, length)) + payload
    if length < LONG:
        return _MEDIUM_HEAD.pack(_FINAL | opcode, 126, length) + payload
    return long_server_head(opcode, length) + payload


def long_server_head(opcode: int, length: int) -> bytes:
    """What precedes the payload of a long frame of a server; it can be sent without a copy of the payload."""
    return _long_head(opcode, length, 0)


def client_frame(opcode: int, payload: bytes) -> bytes:
    """A frame as a client sends it: whole, with a random mask."""
    length, mask = len(payload), os.urandom(4)
    if length < 126:
        return bytes((_FINAL | opcode, _MASKED | length)) + mask + apply_mask(payload, mask)
    if length < LONG:
        return _MEDIUM_HEAD.pack(_FINAL | opcode, _MASKED | 126, length) + mask + apply_mask(payload, mask)
    return _long_head(opcode, length, _MASKED) + mask + apply_mask(payload, mask)


def _long_head(opcode: int, length: int, masked: int) -> bytes:
    return struct.pack("!BBQ", _FINAL | opcode, masked | 127, length)


def close_payload(code: int, reason: str = "") -> bytes:
    """What a close frame carries."""
    whole = reason.encode()[: _LONGEST_CONTROL - 2].decode(errors="ignore").encode()  # characters are not cut
    return struct.pack("!H", code) + whole


def close_code(payload: bytes) -> int:
    """The code in a close frame; NO_STATUS when there is none.

    Raises FrameError for a code or a reason that section 7.4 does not allow.
    """
    if not payload:
        return NO_STATUS
    code = int.from_bytes(payload[:2], "big")
    if len(payload) < 2 or not (code in _REGISTERED_CODES or 3000 <= code < 5000):
        raise FrameError(PROTOCOL_ERROR, f"a close frame without a valid code: {payload[:2]!r}")
    if not _is_utf8(payload[2:]):
        raise FrameError(INVALID_PAYLOAD, "a close frame whose reason is no UTF-8")
    return code
