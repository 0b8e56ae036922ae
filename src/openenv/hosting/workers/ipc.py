"""The channel between the dispatcher and a worker: connections and slots go to the worker, its load comes back.

A message is one packet of JSON, `[kind, number, ...]`; a connection travels beside it as an open file. No message has
an answer, so neither process ever waits for the other.
"""

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

import orjson

log = logging.getLogger(__name__)

CONNECTION = "connection"
"""To a worker: a client's connection, with its first request still unread."""
ADD_SLOTS = "add_slots"
"""To a worker: it may hold so many sessions more."""
REQUEST_SLOTS = "request_slots"
"""To a worker: give up to so many free slots back."""
RETURN_SLOTS = "return_slots"
"""From a worker, after REQUEST_SLOTS: so many it gives back."""
LOAD = "load"
"""From a worker: its sessions, its queued callers, and how many sessions it was asked for so far. The first one
means that it takes connections."""

_MAX_PACKET_BYTES = 1 << 12


class ChannelMessage(NamedTuple):
    """What the other process sent."""

    kind: str
    numbers: list[int]
    connection: socket.socket | None
    """Of CONNECTION; None where this process could not open it."""


def channel_pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a channel's socket."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Channel:
    """One end of a channel, which is read from at once by the running event loop."""

    def __init__(
        self, connection: socket.socket, on_message: Callable[[ChannelMessage], None], on_closed: Callable[[], None]
    ) -> None:
        """on_closed: is called when the other process has ended, or has closed its end."""
        connection.setblocking(False)
        self._socket = connection
        self._on_message = on_message
        self._on_closed = on_closed
        self._loop = asyncio.get_running_loop()
        self._unsent: deque[tuple[bytes, int | None]] = deque()
        self._is_closed = False
        self._loop.add_reader(connection, self._read)

    def send(self, kind: str, *numbers: int) -> None:
        """Send a message, now or as soon as the other process has read what came before."""
        if not self._is_closed:
            self._push(orjson.dumps([kind, *numbers]), None)

    def send_connection(self, connection: socket.socket) -> None:
        """Hand a connection over; it is closed in this process."""
        if self._is_closed:
            connection.close()
        else:
            self._push(orjson.dumps([CONNECTION]), connection.detach())

    def close(self) -> None:
        """Close this end; unsent connections are closed with it."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for _, fd in self._unsent:
            if fd is not None:
                os.close(fd)

    def _push(self, packet: bytes, fd: int | None) -> None:
        self._unsent.append((packet, fd))
        if len(self._unsent) == 1:
            self._write()

    def _write(self) -> None:
        while self._unsent:
            packet, fd = self._unsent[0]
            try:
                socket.send_fds(self._socket, [packet], [] if fd is None else [fd])
            except BlockingIOError:
                self._loop.add_writer(self._socket, self._write)
                return
            except OSError as error:  # mostly: the other process has ended, which the reader sees as well
                log.info("a message was not sent to the other process: %s", error)
            self._unsent.popleft()
            if fd is not None:
                os.close(fd)
        self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        while not self._is_closed:
            try:
                packet, fds, _, _ = socket.recv_fds(self._socket, _MAX_PACKET_BYTES, 1)
            except BlockingIOError:
                return
            except OSError:
                packet, fds = b"", []
            if not packet:
                self.close()
                self._on_closed()
                return
            kind, *numbers = orjson.loads(packet)
            connection = socket.socket(fileno=fds[0]) if fds else None
            self._on_message(ChannelMessage(kind, numbers, connection))
