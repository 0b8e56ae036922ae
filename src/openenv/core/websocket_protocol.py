"""One WebSocket connection as a state machine without a socket: bytes in, whole messages out.

Both transports, blocking and asyncio, drive it; `websockets` does the framing.
"""

from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import orjson
from websockets.client import ClientProtocol
from websockets.exceptions import InvalidHandshake, PayloadTooBig
from websockets.frames import Frame, Opcode
from websockets.http11 import Response
from websockets.protocol import State
from websockets.typing import Subprotocol
from websockets.uri import WebSocketURI, parse_uri

from openenv.core.errors import ServerUnreachable, SessionLost, Unauthorized
from openenv.core.protocol import SUBPROTOCOL

_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


def websocket_uri(base_url: str, *, query: str = "") -> WebSocketURI:
    """The WebSocket address of an environment's base URL. Raises ValueError when it is no http(s) or ws(s) URL.

    `localhost:8000` is read as http://localhost:8000.
    """
    parts = urlsplit(base_url if "://" in base_url else f"http://{base_url}")
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise ValueError(f"base_url={base_url!r}: give a URL such as http://localhost:8000")
    queries = "&".join(filter(None, (parts.query, query)))
    return parse_uri(urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + "/ws", queries, "")))


class WebSocketProtocol:
    """The client's end of one connection. `outgoing()` must be written to the socket after each call."""

    def __init__(self, uri: WebSocketURI, max_size: int, headers: dict[str, str]) -> None:
        self._protocol = ClientProtocol(uri, max_size=max_size, subprotocols=[Subprotocol(SUBPROTOCOL)])
        self._address = f"{uri.host}:{uri.port}"
        self._parts: list[bytes] = []
        self._is_lost = False
        self._why_lost = ""
        request = self._protocol.connect()
        request.headers.update(headers)
        self._protocol.send_request(request)

    @property
    def is_open(self) -> bool:
        """Whether the handshake is done, nobody has closed, and the socket is there."""
        return self._protocol.state is State.OPEN and not self._is_lost

    @property
    def subprotocol(self) -> str | None:
        """What the server chose of what was offered."""
        return self._protocol.subprotocol

    @property
    def is_connecting(self) -> bool:
        """Whether the handshake is still under way."""
        return self._protocol.state is State.CONNECTING

    def connection_lost(self, why: str = "") -> None:
        """The socket broke, for a reason that the protocol may not know: nothing can be sent any more."""
        self._is_lost = True
        self._why_lost = self._why_lost or why

    def ping(self) -> None:
        """Ask the other side for a sign of life, when there is one to ask."""
        if self.is_open:
            self._protocol.send_ping(b"")

    def outgoing(self) -> bytes:
        """Bytes to write to the socket now."""
        return b"".join(self._protocol.data_to_send())

    def send(self, message: bytes) -> None:
        """Send a text message. Raises SessionLost when the connection is not open."""
        if not self.is_open:
            raise SessionLost(self.reason())
        self._protocol.send_text(message)

    def close(self) -> None:
        """Start the closing handshake, once."""
        if self.is_open:
            self._protocol.send_close(1000)

    def receive(self, data: bytes) -> Iterator[bytes]:
        """Take bytes from the socket (empty: it was closed) and yield each whole message in them.

        Raises Unauthorized when the server refuses the handshake for want of a token, ServerUnreachable for others.
        """
        if data:
            self._protocol.receive_data(data)
        else:
            self._protocol.receive_eof()
        for event in self._protocol.events_received():
            if isinstance(event, Response):
                self._check_handshake(event)
            elif isinstance(event, Frame):
                yield from self._message(event)
        if self._protocol.handshake_exc is not None and self._protocol.state is State.CONNECTING:
            raise ServerUnreachable(f"{self._address} refused the WebSocket: {self._protocol.handshake_exc}")

    def _check_handshake(self, response: Response) -> None:
        error = self._protocol.handshake_exc
        if isinstance(error, InvalidHandshake):
            said = (response.body or b"")[:500].decode(errors="replace")
            if response.status_code == 401:
                raise Unauthorized(f"{self._address} refused the WebSocket: {_message_in(said)}")
            raise ServerUnreachable(f"{self._address} refused the WebSocket: {error} {said}".rstrip())

    def _message(self, frame: Frame) -> Iterator[bytes]:
        if frame.opcode in (Opcode.TEXT, Opcode.BINARY, Opcode.CONT):
            self._parts.append(bytes(frame.data))
            if frame.fin:
                yield self._parts[0] if len(self._parts) == 1 else b"".join(self._parts)
                self._parts.clear()

    def reason(self) -> str:
        """Why the connection is closed, as far as is known, for SessionLost."""
        too_big = self._protocol.parser_exc if isinstance(self._protocol.parser_exc, PayloadTooBig) else None
        if too_big is not None:
            return (
                f"{self._address} sent a message above the limit of this client ({too_big}): raise max_message_size_mb"
            )
        return f"the connection to {self._address} is closed ({self._why_lost or self._protocol.close_code})"


def _message_in(body: str) -> str:
    """What a refusal says to a person: the message of its JSON body, or the body itself."""
    try:
        return str(orjson.loads(body)["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return body or "HTTP 401"
