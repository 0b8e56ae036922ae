"""The short way of a frame through the server: from the socket to the environment and back in one call.

The application does what happens once for each connection: access control, session. Then the endpoint takes the
connection over: its frames no longer pass through ASGI's queue and tasks, which cost more than the step of an
environment that runs in the event loop.
"""

import asyncio
import logging
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any

from openenv.core.arrays import BinaryFrame
from openenv.core.env_server.asgi_connection import Answers
from openenv.core.env_server.frames_together import FramesTogether
from openenv.core.frames import (
    BINARY,
    CLOSE,
    GOING_AWAY,
    NORMAL,
    PING,
    PONG,
    SERVICE_RESTART,
    TEXT,
    FrameError,
    FrameReader,
    Message,
    close_code,
    close_payload,
    server_frame,
)
from openenv.core.trunk_transport import TrunkTransport
from openenv.core.watching import LoopWatch

log = logging.getLogger(__name__)

_LAST_WORDS_S = 5.0
_MOST_WAITING = 16
"""Frames that wait for one that takes its time, before no more are read."""
_TOGETHER: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, FramesTogether] = weakref.WeakKeyDictionary()


class DirectConnection(asyncio.Protocol):
    """A connection that was taken over. Until `answer_with` its frames are kept."""

    def __init__(
        self,
        transport: asyncio.Transport,
        max_size: int,
        loop: asyncio.AbstractEventLoop,
        on_lost: Callable[[Exception | None], None],
    ) -> None:
        """on_lost: is told when the connection is gone."""
        self._on_lost: Callable[[Exception | None], None] | None = on_lost
        self._transport = transport
        self._reader = FrameReader(max_size, from_client=True)
        self._loop = loop
        self._answers: Answers | None = None
        self._waiting: deque[bytes] = deque()
        self._answering: asyncio.Task[None] | None = None
        self._shared = transport if isinstance(transport, TrunkTransport) else None
        """The transport where it is a trunk's, which takes texts without frames."""
        self._watch = None if self._shared else LoopWatch.of(loop)
        """None: the trunk watches."""
        self._together = None if self._shared else _TOGETHER.setdefault(loop, FramesTogether())
        """None: a trunk reads together what belongs together."""
        self._ended: asyncio.Future[bool] = loop.create_future()
        self._lost: asyncio.Future[None] = loop.create_future()
        self._heard_goodbye = self._said_goodbye = self._is_deaf = False
        self._is_full = False
        """Whether the client has too much to read already."""

    async def until_ended(self) -> bool:
        """Return when the connection has ended: whether the client said goodbye."""
        return await asyncio.shield(self._ended)

    async def answer_with(self, answers: Answers) -> bool:
        """Let `answers` answer each frame, in order, until the connection ends; then as `until_ended`."""
        if not self._ended.done():
            self._answers = answers
            self._answer_waiting()
        return await self.until_ended()

    def data_received(self, data: bytes) -> None:
        """Answer what has come; what must wait for its turn is answered by a task."""
        if self._is_deaf:
            return
        if self._watch is not None:
            self._watch.heard()
        text = self._reader.whole_text(data)
        if text is not None:
            if self._together is None:
                self.hear(text)
            else:
                self._together.add(self, text)
            return
        if self._together is not None:
            self._together.answer()
        try:
            for message in self._reader.feed(data):
                if message.opcode < CLOSE:
                    self.hear(message.data if message.opcode == TEXT else BinaryFrame(message.data))
                else:
                    self._control(message)
        except FrameError as error:
            self._is_deaf = True  # nothing after it can be understood
            self._end(said_goodbye=False)
            self._say_goodbye(error.code, error.reason)

    def shut_down(self) -> None:
        """The server stops."""
        self._end(said_goodbye=False)
        self._say_goodbye(SERVICE_RESTART)
        self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop. A verb that runs goes on to its end, and its answer is kept by the session."""
        if self._together is not None:
            self._together.leave(self)
        self._end(said_goodbye=False)
        if not self._lost.done():
            self._lost.set_result(None)
        on_lost, self._on_lost = self._on_lost, None  # which refers to this object
        if on_lost is not None:
            on_lost(exc)

    def abort(self) -> None:
        """Close the connection at once."""
        self._transport.abort()

    async def close(self) -> None:
        """Say goodbye, wait shortly for the client's, and close the socket.

        What the client still sends is read until then: closed before, the socket would take our last frames with it.
        To a client that said goodbye first ours means that its session has ended.
        """
        self._say_goodbye(NORMAL)
        patience = self._loop.call_later(_LAST_WORDS_S, self._transport.abort)
        try:
            await self._lost
        finally:
            patience.cancel()
            self._transport.close()

    def _say_goodbye(self, code: int, reason: str = "") -> None:
        if not self._said_goodbye and not self._transport.is_closing():
            self._transport.write(server_frame(CLOSE, close_payload(code, reason)))
            if self._watch is not None:
                self._watch.expect(self._loop)
        self._said_goodbye = True
        if self._heard_goodbye:
            self._transport.close()

    def pause_writing(self) -> None:
        """Called by the transport when the client reads too slowly: it is neither answered nor read from."""
        self._is_full = True
        self._transport.pause_reading()

    def resume_writing(self) -> None:
        """Called by the transport when the client has caught up."""
        self._is_full = False
        self._answer_waiting()

    def _read_on(self) -> None:
        """Read again, unless enough is waiting already."""
        if len(self._waiting) < _MOST_WAITING and not self._is_full and not self._transport.is_closing():
            self._transport.resume_reading()

    def hear(self, frame: bytes) -> None:
        """Answer a frame, or keep it until its turn comes."""
        if self._answers is not None and self._answering is None and not self._waiting and not self._is_full:
            reply = self._answers(frame)
            if type(reply) is not bytes:
                self._say(reply)
            elif self._shared is None or not self._shared.write_text(reply):
                self._write(TEXT, reply)
        elif not self._ended.done():  # after its goodbye a client says nothing more
            self._waiting.append(frame)
            if len(self._waiting) >= _MOST_WAITING:
                self._transport.pause_reading()

    text_received = hear
    """Called by a trunk with a text message that came without a frame. Who is deaf answers nothing any more."""

    def _say(self, reply: bytes | Coroutine[Any, Any, bytes] | None) -> None:
        if isinstance(reply, bytes):
            is_text = type(reply) is bytes
            if self._shared is None or not is_text or not self._shared.write_text(reply):
                self._write(TEXT if is_text else BINARY, reply)
        elif reply is None:
            self._end(said_goodbye=True)
        else:
            self._answering = self._loop.create_task(self._answer_later(reply))

    def _write(self, opcode: int, reply: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(server_frame(opcode, reply))
            if self._watch is not None:
                self._watch.expect(self._loop)

    async def _answer_later(self, reply: Coroutine[Any, Any, bytes]) -> None:
        """Wait for a reply, then answer what has come meanwhile."""
        try:
            self._say(await reply)
        finally:
            self._answering = None
        self._answer_waiting()

    def _answer_waiting(self) -> None:
        answers = self._answers
        while (
            self._waiting and self._answering is None and not (answers is None or self._is_full or self._ended.done())
        ):
            self._say(answers(self._waiting.popleft()))
        self._read_on()

    def _control(self, message: Message) -> None:
        if message.opcode == PING and not self._is_full:
            self._transport.write(server_frame(PONG, message.data))
        elif message.opcode == CLOSE:
            self._heard_goodbye = True
            self._end(said_goodbye=close_code(message.data) in (NORMAL, GOING_AWAY))
            if self._said_goodbye:
                self._transport.close()

    def _end(self, *, said_goodbye: bool) -> None:
        self._answers = None
        if not self._ended.done():
            self._ended.set_result(said_goodbye)
        if not self._transport.is_closing():
            self._transport.resume_reading()
