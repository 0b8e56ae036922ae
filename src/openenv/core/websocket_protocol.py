"""One WebSocket connection as a state machine without a socket: bytes in, whole messages out.

Both transports, blocking and asyncio, drive it.
"""

import functools
import os
import re
import struct
from collections.abc import Iterator
from urllib.parse import urlsplit, urlunsplit

import orjson
from websockets.uri import WebSocketURI, parse_uri

from openenv.core.arrays import BINARY_HEAD_BYTES, BinaryFrame
from openenv.core.errors import MessageTooBig, ServerUnreachable, SessionLost, Unauthorized
from openenv.core.frames import (
    BINARY,
    CLOSE,
    NORMAL,
    PING,
    PONG,
    TEXT,
    FrameError,
    FrameReader,
    Message,
    client_frame,
    close_code,
    close_payload,
)
from openenv.core.protocol import ARRAYS_SUBPROTOCOL, SUBPROTOCOL, UNIX
from openenv.core.unforeseen import unforeseen_bytes
from openenv.core.websocket_handshake import ClientHandshake, HandshakeRefused

_MASK_BYTES = 4096
_REQUEST_ID = re.compile(rb'\{"type":"\w+","id":"([^"\\]*)"')
"""Where the extended dialect has the id of the request that a frame answers."""
_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}


@functools.lru_cache(maxsize=256)
def websocket_uri(base_url: str, *, query: str = "") -> WebSocketURI:
    """The WebSocket address of an environment's base URL. Raises ValueError when it is no http(s) or ws(s) URL.

    `localhost:8000` is read as http://localhost:8000. `unix:/run/echo.sock` is a server on that socket.
    """
    if base_url.startswith(UNIX):
        if not base_url.startswith(f"{UNIX}/"):
            raise ValueError(f"base_url={base_url!r}: give the socket's whole path, such as unix:/run/echo.sock")
        return parse_uri(urlunsplit(("ws", "localhost", "/ws", query, "")))
    parts = urlsplit(base_url if "://" in base_url else f"http://{base_url}")
    scheme = _SCHEMES.get(parts.scheme)
    if scheme is None or not parts.hostname:
        raise ValueError(f"base_url={base_url!r}: give a URL such as http://localhost:8000")
    queries = "&".join(filter(None, (parts.query, query)))
    return parse_uri(urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + "/ws", queries, "")))


class WebSocketProtocol:
    """The client's end of one connection. After `receive`, `ping` and `close`, write `outgoing()` to the socket."""

    def __init__(
        self, uri: WebSocketURI, max_size: int, headers: dict[str, str], *, reads_arrays: bool = False
    ) -> None:
        """reads_arrays: whether binary frames are understood."""
        offered = [ARRAYS_SUBPROTOCOL, SUBPROTOCOL] if reads_arrays else [SUBPROTOCOL]
        self._handshake = ClientHandshake(uri, offered, headers)
        self._address = f"{uri.host}:{uri.port}"
        self._max_size = max_size
        self._reader = FrameReader(max_size, from_client=False)
        self._masks = _masks()
        self._outgoing: list[bytes] = [self._handshake.request]
        self.is_connecting = True
        """Whether the handshake is still under way."""
        self.is_open = False
        """Whether the handshake is done, nobody has closed, and the socket is there."""
        self._why_closed = ""

    @property
    def subprotocol(self) -> str | None:
        """What the server chose of what was offered."""
        return self._handshake.subprotocol

    def connection_lost(self, why: str = "") -> None:
        """The socket broke, for a reason that the protocol may not know: nothing can be sent any more."""
        self.is_open = False
        self._why_closed = self._why_closed or why

    def ping(self) -> None:
        """Ask the other side for a sign of life, when there is one to ask."""
        if self.is_open:
            self._outgoing.append(client_frame(PING, b"", next(self._masks)))

    def outgoing(self) -> bytes:
        """Bytes to write to the socket now."""
        if not self._outgoing:
            return b""
        data, self._outgoing = b"".join(self._outgoing), []
        return data

    def frame(self, message: bytes) -> bytes:
        """The bytes of a message. Raises SessionLost when the connection is not open."""
        if not self.is_open:
            raise SessionLost(self.reason())
        return client_frame(BINARY if isinstance(message, BinaryFrame) else TEXT, message, next(self._masks))

    def close(self) -> None:
        """Say goodbye, once."""
        if self.is_open:
            self._close(NORMAL)

    def whole_text(self, data: bytes) -> bytes | None:
        """The one text message that bytes from the socket as a rule are. None: they are for `receive`."""
        return None if self.is_connecting else self._reader.whole_text(data)

    def receive(self, data: bytes) -> list[bytes]:
        """Take bytes from the socket (empty: it was closed); each whole message in them.

        In place of a message above the limit comes the error frame that names the limit, under the same id.
        Raises Unauthorized when the server refuses the handshake for want of a token, ServerUnreachable for others.
        """
        if self.is_connecting:
            data = self._shake_hands(data)
        if not data:
            return []
        try:
            messages = self._reader.feed(data)
        except FrameError as error:
            self._close(error.code)
            self._why_closed = f"it sent {error.reason}"
            return []
        for message in messages:
            if message.opcode >= CLOSE:
                self._control(message)
        return [self._data(message) for message in messages if message.opcode < CLOSE]

    def _data(self, message: Message) -> bytes:
        if not message.size_above:
            return message.data
        request_id = _REQUEST_ID.match(message.data, BINARY_HEAD_BYTES if message.opcode == BINARY else 0)
        reason = (
            f"an answer of {message.size_above} bytes is above this client's limit of {self._max_size}: raise "
            "max_message_size_mb. What was asked for has happened, and the session lives"
        )
        frame = {"type": "error", "data": {"message": reason, "code": MessageTooBig.code}}
        return orjson.dumps(frame if request_id is None else {**frame, "id": request_id[1].decode()})

    def _shake_hands(self, data: bytes) -> bytes:
        """The bytes that came after the handshake. Raises when it was refused, or broken off."""
        try:
            if not data:
                raise self._handshake.ended()
            rest = self._handshake.feed(data)
        except HandshakeRefused as refusal:
            raise self._refused(refusal) from None
        if rest is None:
            return b""
        self.is_connecting, self.is_open = False, True
        return rest

    def _refused(self, refusal: HandshakeRefused) -> ServerUnreachable | Unauthorized:
        said = refusal.body[:500].decode(errors="replace")
        if refusal.status == 401:
            return Unauthorized(f"{self._address} refused the WebSocket: {_message_in(said)}")
        return ServerUnreachable(f"{self._address} refused the WebSocket: {refusal} {said}".rstrip())

    def _control(self, frame: Message) -> None:
        if frame.opcode == PING:
            self._outgoing.append(client_frame(PONG, frame.data, next(self._masks)))
        elif frame.opcode == CLOSE and self.is_open:
            self._why_closed = str(close_code(frame.data))
            self._close(NORMAL)

    def _close(self, code: int) -> None:
        self._outgoing.append(client_frame(CLOSE, close_payload(code), next(self._masks)))
        self.is_open = False

    def reason(self) -> str:
        """Why the connection is closed, as far as is known, for SessionLost."""
        return f"the connection to {self._address} is closed ({self._why_closed or 'without a goodbye'})"


def _masks() -> Iterator[bytes]:
    """Masks that nobody can foretell, drawn from the system many at a time; few for a connection that says little."""
    drawn = unforeseen_bytes()
    while True:
        for (mask,) in struct.iter_unpack("4s", drawn):
            yield mask
        drawn = os.urandom(_MASK_BYTES)


def _message_in(body: str) -> str:
    """What a refusal says to a person: the message of its JSON body, or the body itself."""
    try:
        return str(orjson.loads(body)["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return body or "HTTP 401"
