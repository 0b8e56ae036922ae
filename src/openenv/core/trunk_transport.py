"""One connection of a trunk, as asyncio's protocols see it: a transport, with backpressure of its own.

An end may send as much as the other has granted, so that a connection whose protocol does not read holds up no other.
"""

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from openenv.core.trunk import Trunk

log = logging.getLogger(__name__)

OPEN, DATA, GRANT, END, CLOSE, TEXT = range(6)
"""Kinds of packets. A `TEXT` is a whole text message of a WebSocket, without its frame."""
MOST_BYTES = 1 << 18
"""Of one packet."""
_WINDOW_BYTES = 1 << 20
"""What either end may send before the other has read it."""


class TrunkTransport(asyncio.Transport):
    """What a protocol at either end of a trunk writes to."""

    def __init__(
        self, trunk: "Trunk", loop: asyncio.AbstractEventLoop, number: int, protocol: asyncio.BaseProtocol
    ) -> None:
        super().__init__()
        self._trunk = trunk
        self._loop = loop
        self._number = number
        self._protocol: Any = protocol
        self._granted = _WINDOW_BYTES
        """Bytes that may still be sent."""
        self._unsent = bytearray()
        self._num_read = 0
        """Bytes that were read and not granted again."""
        self._unread: deque[tuple[bytes, bool]] = deque()
        """What came while reading was paused, and whether it is a text."""
        self._num_unread = 0
        """Bytes of it."""
        self._is_reading = True
        self.is_listening = True
        """Whether what comes is handed on at once."""
        self._is_full = False
        self._is_closing = self._is_gone = self._has_said_end = False
        self._has_heard_end = self._has_heard_close = False

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """Send bytes with all else that is said in this turn of the event loop."""
        size = len(data)
        if 0 < size <= self._granted and size <= MOST_BYTES and not self._is_closing and not self._has_said_end:
            self._granted -= size
            self._trunk.send(DATA, self._number, size, data if type(data) is bytes else bytes(data))
        else:
            self._write_piecewise(data)

    def write_text(self, text: bytes) -> bool:
        """Send a text message without a frame, to a protocol that has `text_received`. False: not now, nor so."""
        size = len(text)
        if not 0 < size <= MOST_BYTES or size > self._granted or self._is_closing or self._has_said_end:
            return False
        self._granted -= size
        self._trunk.send(TEXT, self._number, size, text)
        return True

    def _write_piecewise(self, data: bytes | bytearray | memoryview) -> None:
        if self._has_heard_close:
            self.abort()
        if self._is_closing or self._has_said_end:
            return
        self._unsent += data
        self._push()

    def _push(self) -> None:
        """Send of what waits as much as may be sent."""
        while (size := min(len(self._unsent), self._granted, MOST_BYTES)) > 0:
            self._granted -= size
            self._trunk.send(DATA, self._number, size, bytes(self._unsent[:size]))
            del self._unsent[:size]
        self.tell_whether_full()
        if not self._unsent:
            self._all_is_sent()

    def _all_is_sent(self) -> None:
        if self._is_closing:
            self.abort()
        elif self._has_said_end:
            self._trunk.send(END, self._number)

    def granted(self, num_bytes: int) -> None:
        """The other end has read so many."""
        self._granted += num_bytes
        if self._unsent:
            self._push()

    def tell_whether_full(self) -> None:
        """Have the protocol wait while what it says waits."""
        is_full = bool(self._unsent) or self._trunk.is_full
        if is_full is not self._is_full and not self._is_gone:
            self._is_full = is_full
            self.tell(self._protocol.pause_writing if is_full else self._protocol.resume_writing)

    def keep(self, data: bytes, *, is_text: bool) -> None:
        """Bytes have come, or a text message, while it does not listen: they wait."""
        if not self._is_closing:
            self._unread.append((data, is_text))
            self._num_unread += len(data)
            if self._num_unread > _WINDOW_BYTES:
                log.error("the other end of a trunk sends more than it was granted: the connection is closed")
                self.abort()

    def hear(self, data: bytes, is_text: bool) -> None:
        """Bytes have come, or a text message: hand them on."""
        self._num_read += len(data)
        if self._num_read >= _WINDOW_BYTES // 2:
            self._trunk.send(GRANT, self._number, self._num_read)
            self._num_read = 0
        try:
            if is_text:
                self._protocol.text_received(data)
            else:
                self._protocol.data_received(data)
        except Exception:  # noqa: BLE001  border: as `tell`
            self._failed()

    def hear_end(self, *, is_closed: bool) -> None:
        """The other end says nothing more; when it is closed, it reads nothing more either."""
        self._has_heard_end = True
        self._has_heard_close = is_closed
        if is_closed:
            self._granted = 0
        if is_closed and (self._is_closing or self._unsent):
            self.abort()  # nobody will read it
        elif self.is_listening:
            self._hand_on_end()

    def tell(self, callback: Callable[..., None], *arguments: Any) -> None:
        """Call the protocol: what it raises ends its own connection and no other."""
        try:
            callback(*arguments)
        except Exception:  # noqa: BLE001  border: as every transport does
            self._failed()

    def _failed(self) -> None:
        log.exception("the protocol of a trunk's connection failed")
        self.abort()

    def _hand_on_end(self) -> None:
        if not self._is_closing:
            self.tell(self._protocol.eof_received)  # none goes on after the end, which asyncio would let it
        if self._has_heard_close:
            self.abort()
        else:
            self.close()

    def _read_on(self) -> None:
        while self._unread and self._is_reading and not self._is_closing:
            data, is_text = self._unread.popleft()
            self._num_unread -= len(data)
            self.hear(data, is_text)
        self._listen()
        if self._has_heard_end and self.is_listening:
            self._hand_on_end()

    def _listen(self) -> None:
        self.is_listening = self._is_reading and not (self._unread or self._is_closing)

    def lose(self, error: Exception | None) -> None:
        """The trunk is gone, or this connection is."""
        if not self._is_gone:
            self._is_closing = self._is_gone = True
            self._unsent.clear()
            self._unread.clear()
            self._listen()
            self._loop.call_soon(self._tell_lost, error)

    def _tell_lost(self, error: Exception | None) -> None:
        protocol, self._protocol = self._protocol, None  # which refers to this transport
        protocol.connection_lost(error)

    # asyncio's interface.

    def close(self) -> None:
        """Read no more, and close when everything is sent."""
        if not self._is_closing:
            self._is_closing = True
            self._unread.clear()
            self._listen()
            if not self._unsent:
                self._all_is_sent()

    def abort(self) -> None:
        """Close at once."""
        self.lose(None)
        self._trunk.leave(self._number)

    def is_closing(self) -> bool:
        """Whether nothing more can be sent."""
        return self._is_closing

    def get_write_buffer_size(self) -> int:
        """Bytes that wait for the other end to read."""
        return len(self._unsent)

    def can_write_eof(self) -> bool:
        """Whether one direction can be closed alone."""
        return True

    def write_eof(self) -> None:
        """Send nothing more, and read on."""
        if not (self._is_closing or self._has_said_end):
            self._has_said_end = True
            if not self._unsent:
                self._all_is_sent()

    def pause_reading(self) -> None:
        """Hand on nothing more."""
        self._is_reading = False
        self._listen()

    def resume_reading(self) -> None:
        """Hand on what has come, in the next turn of the event loop."""
        if not self._is_reading and not self._is_closing:
            self._is_reading = True
            self._listen()
            self._loop.call_soon(self._read_on)

    def is_reading(self) -> bool:
        """Whether what comes is handed on."""
        return self._is_reading and not self._is_closing

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        """Hand on to another protocol from now on."""
        self._protocol = protocol

    def get_protocol(self) -> asyncio.BaseProtocol:
        """The one that is handed on to."""
        protocol: asyncio.BaseProtocol = self._protocol
        return protocol
