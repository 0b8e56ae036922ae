"""The opening handshake of a WebSocket (RFC 6455, section 4), as its client makes it: no extensions, no redirects."""

import base64
import hashlib
import os
from collections.abc import Mapping, Sequence

import httptools
from websockets.headers import build_authorization_basic
from websockets.uri import WebSocketURI

_GUID = b"258EAFA5-E914-47DA-95CA-C5AB0DC85B11"
_MOST_BYTES = 1 << 20
"""The most that is read of a response that opens no WebSocket."""


def accept_key(key: bytes) -> str:
    """The Sec-WebSocket-Accept for a client's Sec-WebSocket-Key (section 4.2.2)."""
    return base64.b64encode(hashlib.sha1(key + _GUID, usedforsecurity=False).digest()).decode()


class HandshakeRefused(Exception):
    """The server opens no WebSocket. Has the status and body of its response, if there was one."""

    def __init__(self, why: str, status: int = 0, body: bytes = b"") -> None:
        super().__init__(why)
        self.status = status
        self.body = body


class ClientHandshake:
    """The request to send, and the response to it."""

    def __init__(self, uri: WebSocketURI, offered: Sequence[str], headers: Mapping[str, str]) -> None:
        """offered: subprotocols. headers: the caller's own, before ours of the same name.

        Raises ValueError for a header that would not stay one line.
        """
        key = base64.b64encode(os.urandom(16))
        lines = {
            "Host": _host(uri),
            "Upgrade": "websocket",
            "Connection": "Upgrade",
            "Sec-WebSocket-Key": key.decode(),
            "Sec-WebSocket-Version": "13",
            "Sec-WebSocket-Protocol": ", ".join(offered),
        }
        if uri.user_info:
            lines["Authorization"] = build_authorization_basic(*uri.user_info)
        if headers:
            own = {name.lower() for name in headers}
            lines = {name: value for name, value in lines.items() if name.lower() not in own} | dict(headers)
        head = "\n".join([f"GET {uri.resource_name} HTTP/1.1", *map(": ".join, lines.items())])
        if head.count("\n") > len(lines) or "\r" in head:
            raise ValueError("headers: a name or a value holds a line break")
        self.request = head.replace("\n", "\r\n").encode() + b"\r\n\r\n"
        self.subprotocol: str | None = None
        """What the server chose of what was offered."""
        self._offered = offered
        self._accept = accept_key(key)
        self._response = _Response()
        self._parser = httptools.HttpResponseParser(self._response)
        self._size = 0

    def feed(self, data: bytes) -> bytes | None:
        """Take what the server sent: the bytes after the handshake, or None while that is not complete.

        Raises HandshakeRefused when the response is complete and opens no WebSocket.
        """
        response = self._response
        self._size += len(data)
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            self._check(response)
            return data[upgrade.args[0] :]
        except httptools.HttpParserError as error:
            raise self._refused(f"the response is no HTTP: {error}") from None
        if response.is_complete or self._size > _MOST_BYTES:
            raise self._refused(f"HTTP {self._parser.get_status_code()}")
        return None

    def ended(self) -> HandshakeRefused:
        """Why there is no WebSocket when the server has closed the connection."""
        status = self._parser.get_status_code() if self._response.has_head else 0
        return self._refused(f"HTTP {status}" if status else "it closed the connection")

    def _refused(self, why: str) -> HandshakeRefused:
        response = self._response
        return HandshakeRefused(why, self._parser.get_status_code() if response.has_head else 0, bytes(response.body))

    def _check(self, response: "_Response") -> None:
        """Raises HandshakeRefused for an upgrade other than the requested one."""
        headers = response.headers
        if headers.get("upgrade", "").lower() != "websocket":
            raise self._refused(f"it upgrades to {headers.get('upgrade')!r}")
        if headers.get("sec-websocket-accept") != self._accept:
            raise self._refused("its Sec-WebSocket-Accept does not belong to this request")
        if "sec-websocket-extensions" in headers:
            raise self._refused("it chose an extension that was not offered")
        self.subprotocol = headers.get("sec-websocket-protocol")
        if self.subprotocol is not None and self.subprotocol not in self._offered:
            raise self._refused(f"it chose the subprotocol {self.subprotocol!r}, which was not offered")


def _host(uri: WebSocketURI) -> str:
    name = f"[{uri.host}]" if ":" in uri.host else uri.host
    return name if uri.port == (443 if uri.secure else 80) else f"{name}:{uri.port}"


class _Response:
    """What the parser has found in the server's response."""

    def __init__(self) -> None:
        self.headers: dict[str, str] = {}
        """By lower-case name; repeated headers are joined by commas."""
        self.body = bytearray()
        self.has_head = self.is_complete = False

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        self.headers[key] = f"{self.headers[key]}, {text}" if key in self.headers else text

    def on_headers_complete(self) -> None:
        self.has_head = True

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.is_complete = True
