"""A WebSocket connection that replies in the call that reads a frame, past ASGI's queue and tasks.

The application handles what happens once for each connection: access control and the session. Then the endpoint
detaches the connection from ASGI, whose overhead for each frame is larger than the step of a fast environment.
"""

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from openenv.core.env_server.websocket.message_handler import PendingReply
from openenv.core.net.busy_poll import LoopSpinner
from openenv.core.net.frames import (
    BINARY,
    CLOSE,
    GOING_AWAY,
    LONG,
    NO_STATUS,
    NORMAL,
    PING,
    PONG,
    SERVICE_RESTART,
    TEXT,
    FrameError,
    FrameReader,
    WebSocketMessage,
    close_code,
    close_payload,
    long_server_head,
    server_frame,
)
from openenv.core.wire.arrays import BinaryFrame

Respond = Callable[[Any], bytes | PendingReply | None]
"""Takes a frame (text, bytes of a text, or a BinaryFrame); returns its reply, or None to close."""
_CLOSE_TIMEOUT_S = 5.0
MAX_QUEUED_FRAMES = 16
"""Frames that wait behind one whose reply takes time; then the socket is no longer read."""
_MAX_QUEUED_BYTES = 1 << 20
"""The same for the bytes of these frames together."""
_MAX_FRAMES_PER_TURN = 16
_MAX_BYTES_PER_TURN = 1 << 16
"""What is read of one connection in one turn of the event loop; other connections have theirs before it goes on."""


class DirectWebSocket(asyncio.Protocol):
    """A connection detached from ASGI. Frames are queued until `respond_with`."""

    def __init__(
        self,
        transport: asyncio.Transport,
        max_size: int,
        loop: asyncio.AbstractEventLoop,
        on_lost: Callable[[Exception | None], None],
    ) -> None:
        """max_size: bytes of a message. on_lost: called when the connection is lost."""
        self._on_lost: Callable[[Exception | None], None] | None = on_lost
        self._transport = transport
        self._reader = FrameReader(max_size, from_client=True)
        self._loop = loop
        self._respond: Respond | None = None
        self._queue: deque[bytes] = deque()
        self._queued_bytes = 0
        self._pending: PendingReply | None = None
        """The reply that takes time."""
        self._spinner = LoopSpinner.of(loop)
        self._ended: asyncio.Future[bool] = loop.create_future()
        self._lost: asyncio.Future[None] = loop.create_future()
        self._close_received = self._close_sent = False
        self._close_code = NORMAL
        """The code of our close frame."""
        self._input_ended = False
        """Whether the client sent a close frame or broke the protocol: its further bytes are ignored."""
        self._is_paused = False
        """Whether the client reads too slowly to be sent more."""
        self._has_more = self._is_scheduled = False
        """Whether frames have arrived that are not read yet, and whether a later turn will read them."""

    async def wait_until_closed(self) -> bool:
        """Return when the connection has ended: whether the client closed it."""
        return await asyncio.shield(self._ended)

    async def respond_with(self, respond: Respond) -> bool:
        """Reply to each frame in order until the connection ends. Returns whether the client closed it."""
        if not self._ended.done():
            self._respond = respond
            self._reply_to_queued()
        return await self.wait_until_closed()

    def data_received(self, data: bytes) -> None:
        """Reply to the frames in `data`, or queue them."""
        if self._input_ended:
            return
        self._spinner.received()
        text = self._reader.whole_text(data)
        if text is not None:
            self._on_frame(text)
        else:
            self._read(data)

    def _read(self, data: bytes = b"") -> None:
        """Take the frames of one turn, from `data` and from what has arrived before."""
        reader = self._reader
        try:
            for message in reader.feed(data, _MAX_FRAMES_PER_TURN):
                if message.opcode < CLOSE:
                    self._on_frame(message.data if message.opcode == TEXT else BinaryFrame(message.data))
                elif self._on_control_frame(message):
                    return
        except FrameError as error:
            self._input_ended = True
            self._end(closed_by_client=False)
            self._send_close(error.code, error.reason)
            # the client's close frame is not waited for, as it cannot be read any more
            if not self._transport.can_write_eof():  # TLS
                self._transport.close()
            elif not self._transport.is_closing():
                self._transport.write_eof()
            return
        if reader.has_more or len(data) > _MAX_BYTES_PER_TURN:
            self._has_more = True
            self._read_on()

    def _read_on(self) -> None:
        """Read the rest in later turns, then the socket, as long as not too much waits for replies."""
        if self._transport.is_closing():
            return
        if (self._is_paused or self._has_full_queue()) and not self._ended.done():
            self._transport.pause_reading()
        elif not self._has_more or self._input_ended:
            self._transport.resume_reading()
        else:
            self._transport.pause_reading()
            if not self._is_scheduled:
                self._is_scheduled = True
                self._loop.call_soon(self._take_turn)

    def _has_full_queue(self) -> bool:
        return len(self._queue) >= MAX_QUEUED_FRAMES or self._queued_bytes >= _MAX_QUEUED_BYTES

    def _take_turn(self) -> None:
        self._is_scheduled = self._has_more = False
        if not self._input_ended:
            self._read()
        self._read_on()

    def _on_frame(self, frame: bytes) -> None:
        respond = self._respond
        if respond is not None and self._pending is None and not self._queue and not self._is_paused:
            self._reply(respond(frame))
        elif not self._ended.done():  # frames after the client's close frame are ignored
            self._queue.append(frame)
            self._queued_bytes += len(frame)
            if self._has_full_queue():
                self._read_on()

    def _reply(self, reply: bytes | PendingReply | None) -> None:
        if isinstance(reply, bytes):
            if not (self._close_sent or self._transport.is_closing()):
                opcode = TEXT if type(reply) is bytes else BINARY
                if len(reply) < LONG:
                    self._transport.write(server_frame(opcode, reply))
                else:
                    self._transport.writelines((long_server_head(opcode, len(reply)), reply))
                self._spinner.arm(self._loop)
        elif reply is None:
            self._end(closed_by_client=True)
        else:
            self._pending = reply
            reply.result.add_done_callback(self._on_result)

    def _on_result(self, result: "asyncio.Future[Any]") -> None:
        reply, self._pending = self._pending, None
        if reply is not None and not result.cancelled():
            self._reply(reply.encode(result.result()))
        self._reply_to_queued()

    def _reply_to_queued(self) -> None:
        respond = self._respond
        while self._queue and self._pending is None and not (respond is None or self._is_paused or self._ended.done()):
            frame = self._queue.popleft()
            self._queued_bytes -= len(frame)
            self._reply(respond(frame))
        self._read_on()

    def _on_control_frame(self, message: WebSocketMessage) -> bool:
        """Whether it was a close frame. Raises FrameError for an invalid one."""
        if message.opcode == PING and not (self._close_sent or self._transport.is_closing()):
            self._transport.write(server_frame(PONG, message.data))
        if message.opcode != CLOSE:
            return False
        code = close_code(message.data)
        self._close_received = self._input_ended = True
        self._close_code = NORMAL if code == NO_STATUS else code
        self._end(closed_by_client=code in (NORMAL, GOING_AWAY))
        if self._close_sent:
            self._transport.close()
        return True

    def shut_down(self, code: int = SERVICE_RESTART, reason: str = "") -> None:
        """Send a close frame, because the server stops or for another reason; frames that still come are ignored.

        `close` follows when `respond_with` has returned.
        """
        self._end(closed_by_client=False)
        self._send_close(code, reason)

    async def has_left(self) -> bool:
        """Whether the client has left by now: what has arrived is read first, also after the loop was blocked."""
        for _ in range(2):  # asyncio reads in the second turn, uvloop in the first
            await asyncio.sleep(0)
        return self._ended.done() or self._transport.is_closing()

    async def close(self) -> None:
        """Send a close frame, wait up to 5 s for the client's, and close the socket.

        Until then the socket is read: closed with unread bytes, it would drop the last frames sent. To a client that
        sent its close frame first, ours confirms that its session has ended.
        """
        self._send_close(self._close_code)
        timeout = self._loop.call_later(_CLOSE_TIMEOUT_S, self._transport.abort)
        try:
            await self._lost
        finally:
            timeout.cancel()
            self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop. A running verb goes on to its end, and the session keeps its response."""
        self._end(closed_by_client=False)
        if not self._lost.done():
            self._lost.set_result(None)
        on_lost, self._on_lost = self._on_lost, None  # it refers to this object
        if on_lost is not None:
            on_lost(exc)

    def _send_close(self, code: int, reason: str = "") -> None:
        if not self._close_sent and not self._transport.is_closing():
            self._transport.write(server_frame(CLOSE, close_payload(code, reason)))
            self._spinner.arm(self._loop)
        self._close_sent = True
        if self._close_received:
            self._transport.close()

    def _end(self, *, closed_by_client: bool) -> None:
        self._respond = None
        self._queue.clear()
        self._queued_bytes = 0
        if not self._ended.done():
            self._ended.set_result(closed_by_client)
        self._read_on()

    def pause_writing(self) -> None:
        """Called by the transport when the client reads too slowly: it gets no more replies, and is not read."""
        self._is_paused = True
        self._read_on()

    def resume_writing(self) -> None:
        """Called by the transport when the client has caught up."""
        self._is_paused = False
        self._reply_to_queued()
