"""uvicorn's WebSocket connection, which an endpoint may detach from ASGI.

Until then its messages pass through ASGI, as those of an author's own endpoints do all the time.
"""

from http import HTTPStatus
from typing import TYPE_CHECKING, Any

from uvicorn.protocols.websockets.websockets_sansio_impl import WebSocketsSansIOProtocol
from websockets.protocol import State

from openenv.core.env_server.websocket.direct_websocket import DirectWebSocket
from openenv.core.net.busy_poll import LoopSpinner
from openenv.core.net.frames import INTERNAL_ERROR

if TYPE_CHECKING:
    from uvicorn._types import ASGIReceiveEvent
    from websockets.http11 import Request

EXTENSION = "openenv.direct"
"""Under this name an endpoint finds the connection in its scope's extensions."""
_VERSION = "13"
_MAX_BYTES_PER_TURN = 1 << 12
"""What is read of one connection in one turn of the event loop; other connections have theirs before it goes on."""


class WebSocketConnection(WebSocketsSansIOProtocol):
    """One connection whose client has requested a WebSocket."""

    _direct: DirectWebSocket | None = None
    will_detach = False
    """Whether an endpoint is going to detach the connection: what arrives until then is kept for that."""

    def __init__(self, **settings: Any) -> None:
        """settings: uvicorn's."""
        super().__init__(**settings)
        self._unread = bytearray()
        """What has arrived for later turns of the event loop. Meanwhile the socket is not read."""

    def handle_connect(self, event: "Request") -> None:
        """Called with the handshake's request. A right one is passed on to the application, a wrong one refused."""
        if event.headers.get_all("Sec-WebSocket-Version") != [_VERSION]:
            self._refuse_version()
            return
        super().handle_connect(event)
        if not self.handshake_complete:
            self.scope["extensions"][EXTENSION] = self  # type: ignore[assignment]  # ASGI allows any value

    def _refuse_version(self) -> None:
        response = self.conn.reject(HTTPStatus.UPGRADE_REQUIRED, f"This server supports version {_VERSION}")
        response.headers["Sec-WebSocket-Version"] = _VERSION
        self.conn.send_response(response)
        self.transport.write(b"".join(self.conn.data_to_send()))
        self.transport.close()
        self.handshake_complete = self.close_sent = True

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        if self.handshake_initiated and not self.handshake_complete:
            self.transport.abort()  # a client sends nothing before its handshake is answered
        elif self._unread or self.will_detach:
            self._unread += data
            if self.will_detach and len(self._unread) > _MAX_BYTES_PER_TURN:
                self.transport.pause_reading()
        elif self.handshake_initiated and len(data) > _MAX_BYTES_PER_TURN:
            self._unread += data
            self._take_turn()
        else:
            super().data_received(data)

    def _take_turn(self) -> None:
        """Read a part of what has arrived, and the rest in later turns; then the socket again."""
        if self.transport.is_closing():
            return
        part = bytes(self._unread[:_MAX_BYTES_PER_TURN])
        del self._unread[:_MAX_BYTES_PER_TURN]
        super().data_received(part)
        if self.transport.is_closing():
            return
        if self._unread:
            self.transport.pause_reading()
            self.loop.call_soon(self._take_turn)
        elif not self.read_paused:
            self.transport.resume_reading()

    async def receive(self) -> "ASGIReceiveEvent":
        """The next message for the application."""
        message = await super().receive()
        if self._unread and not self.transport.is_closing():
            self.transport.pause_reading()  # uvicorn has resumed it
        return message

    def detach(self) -> DirectWebSocket:
        """Pass all frames to a DirectWebSocket. `will_detach` is to be set before the accept."""
        self.stop_keepalive()
        self._direct = DirectWebSocket(self.transport, self.config.ws_max_size, self.loop, self.connection_lost)
        self.transport.set_protocol(self._direct)
        if not self.writable.is_set():  # the transport resumes the new protocol when the client has caught up
            self.writable.set()
            self._direct.pause_writing()
        if self._unread:  # a middleware has awaited something after the accept
            self.transport.resume_reading()
            self._direct.data_received(bytes(self._unread))
        return self._direct

    def send_500_response(self) -> None:
        """Called by uvicorn when the application failed."""
        if self.conn.state is State.OPEN and self._direct is None:
            self.conn.fail(INTERNAL_ERROR)
            self.transport.write(b"".join(self.conn.data_to_send()))
        else:
            super().send_500_response()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        super().connection_lost(exc)
        LoopSpinner.of(self.loop).arm(self.loop)  # a client may open the next session at once

    def shutdown(self) -> None:
        """Called by uvicorn when the server stops."""
        if self._direct is None:
            super().shutdown()
        else:
            self._direct.shut_down()
            self.transport.close()
