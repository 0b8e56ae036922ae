"""The client's end of a WebSocket connection, without a socket: both transports drive it."""

import functools
import re
from collections.abc import Callable
from urllib.parse import urlsplit, urlunsplit

import orjson
from websockets.uri import WebSocketURI, parse_uri

from openenv.core.errors import CapacityReached, MessageTooBig, RequestRefused, ServerUnreachable, Unauthorized
from openenv.core.net.frames import (
    BINARY,
    CLOSE,
    NORMAL,
    PING,
    PONG,
    FrameError,
    FrameReader,
    WebSocketMessage,
    client_frame,
    close_code,
    close_payload,
)
from openenv.core.net.handshake import ClientHandshake, HandshakeRefused
from openenv.core.wire.arrays import BINARY_HEAD_BYTES
from openenv.core.wire.constants import ARRAYS_SUBPROTOCOL, SUBPROTOCOL, UNIX

_REQUEST_ID = re.compile(rb'\{"type":"\w+","id":"([^"\\]*)"')
"""The place of the request's id in a response of the extended dialect."""
_SCHEMES = {"http": "ws", "https": "wss", "ws": "ws", "wss": "wss"}
_URL_REMEDY = "Give a URL such as http://localhost:8000"


@functools.lru_cache(maxsize=256)
def websocket_uri(base_url: str, *, query: str = "") -> WebSocketURI:
    """The WebSocket address of an environment's base URL. Raises ValueError when it is no http(s) or ws(s) URL.

    `localhost:8000` is read as http://localhost:8000. `unix:/run/echo.sock` is a server on that socket.
    """
    if base_url.startswith(UNIX):
        if not base_url.startswith(f"{UNIX}/"):
            raise ValueError(f"base_url={base_url!r}: give the socket's whole path, such as unix:/run/echo.sock")
        return parse_uri(urlunsplit(("ws", "localhost", "/ws", query, "")))
    try:
        parts = urlsplit(base_url if "://" in base_url else f"http://{base_url}")
        host, scheme, _ = (parts.hostname or "").encode("idna"), _SCHEMES.get(parts.scheme), parts.port
    except ValueError as error:  # also of a host that is no name, which is a UnicodeError
        raise ValueError(f"base_url={base_url!r:.200}: {error}. {_URL_REMEDY}") from None
    if scheme is None or not host or not base_url.isprintable() or " " in base_url:  # such as a file's line end
        raise ValueError(f"base_url={base_url!r:.200}: {_URL_REMEDY}")
    queries = "&".join(filter(None, (parts.query, query)))
    return parse_uri(urlunsplit((scheme, parts.netloc, parts.path.rstrip("/") + "/ws", queries, "")))


class WebSocketProtocol:
    """Passes bytes from the socket on as messages. After `receive`, `ping` and `close`, write `outgoing()` to it."""

    def __init__(
        self,
        uri: WebSocketURI,
        max_size: int,
        headers: dict[str, str],
        *,
        reads_arrays: bool = False,
        on_open: Callable[[str | None], None],
        on_message: Callable[[bytes], None],
    ) -> None:
        """
        Args:
            reads_arrays: whether to offer the subprotocol in which arrays come in binary frames.
            on_open: called after the handshake with the subprotocol that the server chose.
            on_message: called with each message. In place of one above max_size it gets an error frame that names the
                limit, with the same id.
        """
        offered = [ARRAYS_SUBPROTOCOL, SUBPROTOCOL] if reads_arrays else [SUBPROTOCOL]
        self._handshake = ClientHandshake(uri, offered, headers)
        self._address = f"{uri.host}:{uri.port}"
        self._max_size = max_size
        self._on_open, self._on_message = on_open, on_message
        self._reader = FrameReader(max_size, from_client=False)
        self.whole_text = self._reader.whole_text
        """The message in bytes that are exactly one text frame, as they usually are; None: give them to `receive`."""
        self._outgoing: list[bytes] = [self._handshake.request]
        self.is_connecting = True
        """Whether the handshake is under way."""
        self.is_open = False
        """Whether messages can be sent."""
        self._input_ended = False
        """Whether the server sent a close frame or broke the protocol: its further bytes are ignored."""
        self._why_closed = ""

    @property
    def num_missing(self) -> int:
        """Bytes that a message lacks whose beginning has come; 0: it is not known."""
        return self._reader.num_missing

    def connection_lost(self, why: str = "") -> None:
        """The socket broke, for a reason that the protocol may not know: nothing can be sent any more."""
        self.is_open = self.is_connecting = False
        self._why_closed = self._why_closed or why

    def ping(self) -> None:
        """Send a ping if the connection is open."""
        if self.is_open:
            self._outgoing.append(client_frame(PING, b""))

    def outgoing(self) -> bytes:
        """Bytes to write to the socket now."""
        if not self._outgoing:
            return b""
        data, self._outgoing = b"".join(self._outgoing), []
        return data

    def close(self) -> None:
        """Send a close frame, once; during the handshake too, which ends it."""
        if self.is_open or self.is_connecting:
            self._close(NORMAL)

    def receive(self, data: bytes) -> None:
        """Take bytes from the socket. Empty bytes: the server has closed it.

        Raises Unauthorized when the server refuses the handshake for want of a token, CapacityReached when it is
        stopping, ServerUnreachable for other reasons.
        """
        if self.is_connecting:
            data = self._shake_hands(data)
        if not data or self._input_ended:
            return
        try:
            for message in self._reader.feed(data):
                if message.opcode < CLOSE:
                    self._on_message(self._data(message))
                elif self._control(message):
                    return
        except FrameError as error:
            self._input_ended = True
            if self.is_open:
                self._close(error.code)
            self._why_closed = f"it sent {error.reason}"

    def _data(self, message: WebSocketMessage) -> bytes:
        if not message.size_above:
            return message.data
        request_id = _REQUEST_ID.match(message.data, BINARY_HEAD_BYTES if message.opcode == BINARY else 0)
        reason = (
            f"a response of {message.size_above} bytes is above this client's limit of {self._max_size}: raise "
            "max_message_size_mb. The request was carried out, and the session lives"
        )
        frame = {"type": "error", "data": {"message": reason, "code": MessageTooBig.code}}
        return orjson.dumps(frame if request_id is None else {**frame, "id": request_id[1].decode()})

    def _shake_hands(self, data: bytes) -> bytes:
        """The bytes after the handshake. Raises when the server refuses it or closes the connection."""
        try:
            if not data:
                raise self._handshake.ended()
            rest = self._handshake.feed(data)
        except HandshakeRefused as refusal:
            raise self._refused(refusal) from None
        if rest is None:
            return b""
        self.is_connecting, self.is_open = False, True
        self._on_open(self._handshake.subprotocol)
        return rest

    def _refused(self, refusal: HandshakeRefused) -> ServerUnreachable | RequestRefused:
        body = refusal.body[:500].decode(errors="replace")
        if refusal.status == 401:
            return Unauthorized(f"{self._address} refused the WebSocket: {_message_in(body)}")
        if refusal.status == 503 and CapacityReached.code in body:
            return CapacityReached(f"{self._address} refused the WebSocket: {_message_in(body)}")
        return ServerUnreachable(f"{self._address} refused the WebSocket: {refusal} {body}".rstrip())

    def _control(self, frame: WebSocketMessage) -> bool:
        """Answer a control frame. Returns whether it was a close frame. Raises FrameError for an invalid one."""
        if frame.opcode == PING and self.is_open:
            self._outgoing.append(client_frame(PONG, frame.data))
        if frame.opcode != CLOSE:
            return False
        code = close_code(frame.data)
        self._input_ended = True
        if self.is_open:
            self._why_closed = str(code)
            self._close(NORMAL)
        return True

    def _close(self, code: int) -> None:
        self._outgoing.append(client_frame(CLOSE, close_payload(code)))
        self.is_open = self.is_connecting = False

    def reason(self) -> str:
        """Why the connection is closed, as far as is known."""
        return f"the connection to {self._address} is closed ({self._why_closed or 'without a close frame'})"


def _message_in(body: str) -> str:
    """The message of a refusal's JSON body, or the body itself."""
    try:
        return str(orjson.loads(body)["message"])
    except (orjson.JSONDecodeError, KeyError, TypeError):
        return body or "HTTP 401"
