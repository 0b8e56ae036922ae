"""Questions, answers and open connections between the front door's process and a worker, over a socket of theirs.

A message is a packet of JSON; a connection or a payload of any size travels beside it as an open file.
"""

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol

import orjson

from openenv.core.env_server.wire import error_data, error_json
from openenv.core.errors import OpenEnvError, RequestRefused, error_from_wire

log = logging.getLogger(__name__)

_LARGEST_PACKET = 1 << 16


class ChannelClosed(OpenEnvError, ConnectionError):
    """The other process has ended."""


class Said(NamedTuple):
    """What an answer holds."""

    value: Any = None
    """JSON."""
    payload: bytes = b""


@dataclass(frozen=True)
class Question:
    """What the other process asks."""

    verb: str
    payload: bytes
    meanwhile: Callable[[Any], None]
    """Tells the asker something before the answer is there."""


class Listener(Protocol):
    """What a process does with what the other one says."""

    async def answer(self, question: Question) -> Said:
        """Answer a question. A RequestRefused is raised again where it was asked; who asks no more cancels this."""
        ...

    def noted(self, verb: str) -> None:
        """Hear what wants no answer."""
        ...

    def given(self, connection: socket.socket) -> None:
        """Take a connection over."""
        ...

    def left(self) -> None:
        """The other process has ended, or has closed its end."""
        ...


@dataclass
class _Open:
    answer: "asyncio.Future[Said]"
    meanwhile: Callable[[Any], None] | None
    undo: Callable[[], None] | None


def pair() -> tuple[socket.socket, socket.socket]:
    """Both ends of a channel's socket."""
    return socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)


class Channel:
    """One end. Begins to listen at once, in the running event loop."""

    def __init__(self, connection: socket.socket, listener: Listener) -> None:
        connection.setblocking(False)
        self._socket = connection
        self._listener = listener
        self._loop = asyncio.get_running_loop()
        self._numbers = 0
        self._open: dict[int, _Open] = {}
        self._answering: dict[int, asyncio.Task[None]] = {}
        self._unsent: deque[tuple[bytes, int | None]] = deque()
        self._is_closed = False
        self._loop.add_reader(connection, self._read)

    async def ask(
        self,
        verb: str,
        payload: bytes = b"",
        *,
        meanwhile: Callable[[Any], None] | None = None,
        undo: Callable[[], None] | None = None,
    ) -> Said:
        """The answer to a question. Raises the RequestRefused that it is, or ChannelClosed.

        meanwhile: hears what is told before. undo: is called when an answer comes that nobody waits for any more.
        """
        if self._is_closed:
            raise ChannelClosed(f"{verb}: the other process has ended")
        self._numbers += 1
        number = self._numbers
        asked = self._open[number] = _Open(self._loop.create_future(), meanwhile, undo)
        self._send("ask", number, verb, payload)
        try:
            return await asked.answer
        except asyncio.CancelledError:
            self._send("leave", number)
            raise

    def note(self, verb: str) -> None:
        """Say something that wants no answer."""
        self._send("note", what=verb)

    def give(self, connection: socket.socket) -> None:
        """Hand a connection over; it is closed here."""
        if self._is_closed:
            connection.close()
        else:
            self._push(_packet("give"), connection.detach())

    def close(self) -> None:
        """Say no more; whoever waits for an answer is told, and answers that are being worked on are given up."""
        if self._is_closed:
            return
        self._is_closed = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        for _, fd in self._unsent:
            if fd is not None:
                os.close(fd)
        for asked in self._open.values():
            if not asked.answer.done():
                asked.answer.set_exception(ChannelClosed("the other process has ended"))
        for task in self._answering.values():
            task.cancel()

    def _send(self, kind: str, number: int = 0, what: Any = None, payload: bytes = b"") -> None:
        if not self._is_closed:
            self._push(_packet(kind, number, what), _file_of(payload) if payload else None)

    def _push(self, packet: bytes, fd: int | None) -> None:
        self._unsent.append((packet, fd))
        if len(self._unsent) == 1:
            self._write()

    def _write(self) -> None:
        """Send what fits now, and the rest as soon as the other process has read."""
        while self._unsent:
            packet, fd = self._unsent[0]
            try:
                socket.send_fds(self._socket, [packet], [] if fd is None else [fd])
            except BlockingIOError:
                self._loop.add_writer(self._socket, self._write)
                return
            except OSError as error:  # as a rule: the other process is gone, which is read as well
                log.info("a message could not be sent to the other process: %s", error)
            self._unsent.popleft()
            if fd is not None:
                os.close(fd)
        self._loop.remove_writer(self._socket)

    def _read(self) -> None:
        while not self._is_closed:
            try:
                packet, fds, _, _ = socket.recv_fds(self._socket, _LARGEST_PACKET, 1)
            except BlockingIOError:
                return
            except OSError:
                packet, fds = b"", []
            if not packet:
                self.close()
                self._listener.left()
                return
            self._hear(orjson.loads(packet), fds[0] if fds else None)

    def _hear(self, message: list[Any], fd: int | None) -> None:
        kind, number, what = message
        if kind == "give":
            self._take_over(fd)
            return
        payload = b"" if fd is None else _read_file(fd)
        if kind == "note":
            self._listener.noted(what)
        elif kind == "ask":
            question = Question(what, payload, lambda value: self._send("meanwhile", number, value))
            self._answering[number] = self._loop.create_task(self._answer(number, question))
        elif kind == "leave":
            task = self._answering.get(number)
            if task is not None:
                task.cancel()
        elif kind == "meanwhile":
            self._tell(number, what)
        else:
            self._settle(self._open.pop(number), kind, Said(what, payload))

    def _take_over(self, fd: int | None) -> None:
        if fd is None:
            log.error("a connection was lost: this process may have no more files open")
        else:
            self._listener.given(socket.socket(fileno=fd))

    def _tell(self, number: int, value: Any) -> None:
        asked = self._open[number]
        if asked.meanwhile is not None and not asked.answer.done():
            asked.meanwhile(value)

    async def _answer(self, number: int, question: Question) -> None:
        kind, said = "left", Said()
        try:
            said = await self._listener.answer(question)
            kind = "told"
        except RequestRefused as error:
            kind, said = "refused", Said(orjson.Fragment(error_json(error_data(error))))
        finally:
            del self._answering[number]
            self._send(kind, number, said.value, said.payload)

    def _settle(self, asked: _Open, kind: str, said: Said) -> None:
        if asked.answer.done():  # nobody waits any more
            if kind == "told" and asked.undo is not None:
                asked.undo()
        elif kind == "told":
            asked.answer.set_result(said)
        elif kind == "refused":
            asked.answer.set_exception(error_from_wire(said.value))
        else:
            asked.answer.set_exception(ChannelClosed("the other process gave no answer"))


def _packet(kind: str, number: int = 0, what: Any = None) -> bytes:
    """A message. kind: ask, leave, meanwhile, told, refused, left: of a question of that number; note; give."""
    return orjson.dumps([kind, number, what])


def _file_of(payload: bytes) -> int:
    """An open file in memory that holds it."""
    fd = os.memfd_create("openenv")
    with os.fdopen(fd, "wb", closefd=False) as file:
        file.write(payload)
    return fd


def _read_file(fd: int) -> bytes:
    with os.fdopen(fd, "rb") as file:
        file.seek(0)
        return file.read()
