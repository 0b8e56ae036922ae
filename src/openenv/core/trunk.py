"""Many connections between two processes through one Unix socket.

System calls are a third of what a small step costs. What the connections of one event loop say in one of its turns
leaves in one write here, and what has come for them is one read. Each is a transport to its own protocol.

A packet is a head of nine bytes, big-endian: its kind (1), the connection's number (4) and a length (4). After `DATA`
and `TEXT` come that many bytes; of `GRANT` it is how many more of them may be sent. Whoever connects counts the
connections.
"""

import asyncio
import logging
import struct
from collections.abc import Callable
from typing import Any, cast

from openenv.core.trunk_transport import CLOSE, DATA, END, GRANT, MOST_BYTES, OPEN, TEXT, TrunkTransport
from openenv.core.watching import LoopWatch

log = logging.getLogger(__name__)

_HEAD = struct.Struct("!BII")
_HEAD_BYTES = _HEAD.size
_WITH_BYTES = frozenset({DATA, TEXT})
_MOST_TOGETHER = 8
"""Packets in one write."""
_LAST_WORDS_S = 5.0
"""How long the other end has to read what was said before."""
_WRITE_AHEAD_BYTES = 1 << 20
"""What may wait for the other process, before the connections are told to wait."""


class Trunk(asyncio.Protocol):
    """One end. The client's closes when its last connection has; the server's with it."""

    def __init__(self, accept: Callable[[], asyncio.BaseProtocol] | None = None, among: set[Any] | None = None) -> None:
        """accept: the server's end makes a protocol for each connection with it. among: what is open at a server."""
        self._among = set() if among is None else among
        self._loop = asyncio.get_running_loop()
        self._watch = LoopWatch.of(self._loop)
        self._accept = accept
        self._opening: asyncio.Task[Any] | None = None
        self._transport: asyncio.Transport | None = None
        self._connections: dict[int, TrunkTransport] = {}
        self._next_number = 0
        self._rest = b""
        """The beginning of a packet whose end is still to come."""
        self._packets: list[bytes] = []
        """What leaves at the end of this turn of the event loop: heads, and what follows each."""
        self._is_leaving = False
        self._is_ending = False
        """Whether it closes with its last connection, or has."""
        self.is_broken = False
        """Whether it was lost while it had connections, or was to have."""
        self.is_full = False
        """Whether the other process has too much to read already."""

    @property
    def is_open(self) -> bool:
        """Whether connections can be made."""
        return not self._is_ending and not (self._transport is not None and self._transport.is_closing())

    def open_at(self, path: str) -> None:
        """Connect to a server; connections may be made at once."""
        self._opening = self._loop.create_task(self._loop.create_unix_connection(lambda: self, path))
        self._opening.add_done_callback(self._opened)

    def _opened(self, opening: "asyncio.Task[Any]") -> None:
        self._opening = None
        if opening.cancelled() or opening.exception() is not None:
            self.connection_lost(None)

    def connect(self, protocol: asyncio.BaseProtocol) -> None:
        """Make a connection from this end."""
        number = self._next_number
        self._next_number += 1
        self.send(OPEN, number)
        self._begin(number, protocol)

    def shutdown(self) -> None:
        """Close with the last connection. Called by uvicorn when the server stops, as of each connection."""
        self._is_ending = True
        if not self._connections:
            self._close()

    def _begin(self, number: int, protocol: asyncio.BaseProtocol) -> None:
        transport = self._connections[number] = TrunkTransport(self, self._loop, number, protocol)
        transport.tell(protocol.connection_made, transport)

    # What the connections say.

    def send(self, kind: int, number: int, length: int = 0, data: bytes = b"") -> None:
        """Send a packet with those that come after it: in the next turn of the event loop, or sooner when they are
        many, so that the other end is not idle meanwhile."""
        packets = self._packets
        packets += (_HEAD.pack(kind, number, length), data)
        if len(packets) >= 2 * _MOST_TOGETHER:
            self._flush()
        elif not self._is_leaving:
            self._is_leaving = True
            self._loop.call_soon(self._leave_now)

    def leave(self, number: int) -> None:
        """A connection is closed here."""
        if self._connections.pop(number, None) is None:
            return
        self.send(CLOSE, number)
        if not self._connections and (self._is_ending or self._accept is None):
            self._is_ending = True
            self._close()

    def _close(self) -> None:
        self._flush()
        if self._transport is not None:
            self._transport.close()
            if self._transport.get_write_buffer_size():
                self._loop.call_later(_LAST_WORDS_S, self._transport.abort)

    def _leave_now(self) -> None:
        self._is_leaving = False
        self._flush()

    def _flush(self) -> None:
        if self._packets and self._transport is not None and not self._transport.is_closing():
            packets, self._packets = self._packets, []
            try:
                self._transport.write(b"".join(packets))
            except RuntimeError as error:  # uvloop's word for a socket that was closed when its opening was cancelled
                log.debug("nothing can be said through a trunk: %s", error)
            self._watch.expect(self._loop)

    # What the event loop says.

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The socket is open: what was said before leaves now."""
        self._transport = cast(asyncio.Transport, transport)  # uvloop's are none by name
        self._transport.set_write_buffer_limits(_WRITE_AHEAD_BYTES)
        self._among.add(self)
        self._flush()
        if self._is_ending:
            self._close()

    def data_received(self, data: bytes) -> None:
        """Hand on what has come for each connection."""
        self._watch.heard()
        if self._rest:
            data = self._rest + data
        connections, at, size, head_at = self._connections, 0, len(data), _HEAD.unpack_from
        while (start := at + _HEAD_BYTES) <= size:
            kind, number, length = head_at(data, at)
            if kind in _WITH_BYTES:
                if not 0 < length <= MOST_BYTES:
                    self._abort(f"{length} bytes at once")
                    return
                end = start + length
                if end > size:
                    break
                at = end
                connection = connections.get(number)
                if connection is None:
                    continue  # it was closed here meanwhile
                if connection.is_listening:
                    connection.hear(data[start:end], kind == TEXT)
                else:
                    connection.keep(data[start:end], is_text=kind == TEXT)
            else:
                at = start
                self._hear(kind, number, length)
                if self._transport is None or self._transport.is_closing():
                    return
        self._rest = data[at:]

    def _hear(self, kind: int, number: int, length: int) -> None:
        connection = self._connections.get(number)
        if kind == OPEN and connection is None and self._accept is not None:
            if self._is_ending:
                self.send(CLOSE, number)
            else:
                self._begin(number, self._accept())
        elif kind not in (GRANT, END, CLOSE):
            self._abort(f"a packet of kind {kind}")
        elif connection is None:
            return  # it was closed here meanwhile
        elif kind == GRANT:
            connection.granted(length)
        else:
            connection.hear_end(is_closed=kind == CLOSE)

    def _abort(self, what: str) -> None:
        log.error("the other end of a trunk sent %s: all its connections are closed", what)
        if self._transport is not None:
            self._transport.abort()

    def pause_writing(self) -> None:
        """The other process reads too slowly."""
        self._set_full(is_full=True)

    def resume_writing(self) -> None:
        """The other process has caught up."""
        self._set_full(is_full=False)

    def _set_full(self, *, is_full: bool) -> None:
        self.is_full = is_full
        for connection in list(self._connections.values()):
            connection.tell_whether_full()

    def connection_lost(self, exc: Exception | None) -> None:
        """The socket is closed, and all connections with it."""
        self.is_broken = not self._is_ending
        self._is_ending, self._transport = True, None
        self._packets.clear()
        self._among.discard(self)
        connections, self._connections = self._connections, {}
        for connection in connections.values():
            connection.lose(exc)
