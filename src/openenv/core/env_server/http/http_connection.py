"""uvicorn's HTTP connection, with limits on a request's head and on the wait for the rest of a request.

uvicorn's parser has neither: a head without an end would fill the memory, and a client that sends half a request would
keep its connection for ever. Between two requests uvicorn's own keep-alive timeout holds.
"""

import asyncio
import sys
from http import HTTPStatus
from typing import Any, Literal

import httptools
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from openenv.core.net.busy_poll import LoopSpinner

MAX_HEAD_BYTES = 1 << 16
"""Of a request's target and headers together."""
MAX_HEADERS = 128
"""As the WebSocket library has it."""
_MAX_HANDSHAKE_LINE_BYTES = 8000
"""A target, or a header's name and value. The WebSocket library has 8,192 for the whole line."""
_LINGER_S = 1.0
"""After a refusal the socket is read this long: closed with unread bytes, it would drop the response."""

_Part = Literal["", "head", "body"]


class _HeadTooLarge(Exception):
    """The head of a request is above a limit. Raised in a callback of the parser, which then stops."""


class HttpConnection(HttpToolsProtocol):
    """An HTTP connection until it upgrades to a WebSocket."""

    def __init__(self, *, head_timeout_s: float, body_timeout_s: float, **settings: Any) -> None:
        """
        Args:
            head_timeout_s: from the first byte of a request, or from the connection, to the end of the head.
            body_timeout_s: the longest wait for further bytes of a body.
            settings: uvicorn's.
        """
        super().__init__(**settings)
        self._timeouts_s = {"head": head_timeout_s, "body": body_timeout_s}
        self._received = b""
        """The bytes that are being parsed."""
        self._part: _Part = ""
        """The part of a request that is not complete yet."""
        self._num_pending = 0
        """Bytes that were received since the parser has last finished a head or passed a body on."""
        self._head_bytes = 0
        self._timer: asyncio.TimerHandle | None = None
        self._is_done = False
        """Whether the connection has become a WebSocket, or is refused: further bytes are not parsed here."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by the event loop; the first request mostly follows at once, so the loop polls for it."""
        super().connection_made(transport)
        spinner = LoopSpinner.of(self.loop)
        spinner.received()
        spinner.arm(self.loop)
        self._part = "head"
        self._limit_wait()

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the event loop."""
        self._is_done = True
        self._stop_timer()
        super().connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        if self._is_done:
            return
        self._received = data
        self._num_pending += len(data)
        super().data_received(data)
        self._received = b""
        if self._is_done:
            return
        if self._num_pending > MAX_HEAD_BYTES:
            self._refuse_head()
            return
        if not self._part and self._is_idle():
            self._part = "head"  # empty lines before a request
        self._limit_wait()

    # The time for the rest of a request.

    def _is_idle(self) -> bool:
        """Whether no response is under way."""
        return self.cycle is None or self.cycle.response_complete

    def _limit_wait(self) -> None:
        """Start the timer of the part that is missing; bytes of a body start it again, those of a head do not.

        The head of the next request has all its time after the response to the last one.
        """
        if not self._part or self._part == "body":
            self._stop_timer()
        if self._part == "head" and not self._is_idle():
            return
        if self._timer is None and self._part and not self.transport.is_closing():
            self._timer = self.loop.call_later(self._timeouts_s[self._part], self._on_timeout)

    def on_response_complete(self) -> None:
        """Called by uvicorn at the end of a response."""
        super().on_response_complete()
        if not self._is_done:
            self._limit_wait()

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def _on_timeout(self) -> None:
        self._timer = None
        if self.flow.read_paused:
            self._limit_wait()  # the application has not taken what has arrived
        elif self._num_pending or self._part == "body":
            what = f"the {self._part} of the request is not complete after {self._timeouts_s[self._part]:g} s"
            self._refuse(HTTPStatus.REQUEST_TIMEOUT, what)
        else:
            self.transport.close()  # a silent connection

    # Callbacks of the parser.

    def on_message_begin(self) -> None:
        """Called at the first byte of a request."""
        super().on_message_begin()
        self._part, self._head_bytes = "head", 0
        self._stop_timer()

    def on_url(self, url: bytes) -> None:
        """Called with a piece of the target."""
        self._head_bytes += len(url)
        super().on_url(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        """Called for each header, and each trailer of a chunked body."""
        self._head_bytes += len(name) + len(value) + len(": \r\n")
        if self._head_bytes > MAX_HEAD_BYTES or len(self.headers) >= MAX_HEADERS:
            raise _HeadTooLarge
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        """Called at the end of the head."""
        self._part, self._num_pending = "body", 0
        super().on_headers_complete()

    def on_body(self, body: bytes) -> None:
        """Called with a piece of the body."""
        self._num_pending = 0
        super().on_body(body)

    def on_message_complete(self) -> None:
        """Called at the end of a request."""
        self._part, self._num_pending = "", 0
        super().on_message_complete()

    # Refusals.

    def send_400_response(self, msg: str) -> None:
        """Called by uvicorn for a request that cannot be parsed."""
        if self._head_bytes > MAX_HEAD_BYTES or len(self.headers or ()) >= MAX_HEADERS:
            self._refuse_head()
        else:
            self._refuse(HTTPStatus.BAD_REQUEST, msg)

    def _refuse_head(self) -> None:
        limits = f"{MAX_HEAD_BYTES} bytes and {MAX_HEADERS} headers"
        self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, f"the head of a request has at most {limits}")

    def _refuse(self, status: HTTPStatus, message: str) -> None:
        """Answer with an error and close the connection, at once where an earlier response is under way."""
        if self._is_done:
            return
        self._is_done = True
        self._stop_timer()
        if self._part == "body" and self._is_idle():
            self.transport.close()  # the request has its response, which came before the end of the body
            return
        is_own = self._part == "body" and not self.cycle.response_started and not self.pipeline
        if not self._is_idle() and not is_own:
            self.transport.abort()
            return
        if is_own:  # the application is waiting for the body
            self.cycle.disconnected = True
            self.cycle.message_event.set()
        text = message.encode()
        head = f"content-type: text/plain; charset=utf-8\r\ncontent-length: {len(text)}\r\nconnection: close\r\n\r\n"
        self.transport.write(STATUS_LINE[status] + head.encode() + text)
        self._timer = self.loop.call_later(_LINGER_S, self.transport.abort)  # TLS would wait for the client
        if self.transport.can_write_eof():  # TLS cannot
            self.transport.write_eof()

    # The handshake of a WebSocket.

    def handle_websocket_upgrade(self) -> None:
        """Called by uvicorn after it parsed the head of the request, before any response."""
        upgrade = sys.exc_info()[1]  # uvicorn is handling it; its argument is the length of the head
        is_early = isinstance(upgrade, httptools.HttpParserUpgrade) and len(self._received) > upgrade.args[0]
        if is_early or not self._is_idle():
            self.transport.abort()  # a client sends nothing before its handshake is answered, and that after the rest
            return
        longest = max(len(self.url), *(len(name) + len(value) for name, value in self.headers))
        if longest > _MAX_HANDSHAKE_LINE_BYTES:
            what = f"a line of a WebSocket handshake has at most {_MAX_HANDSHAKE_LINE_BYTES} bytes"
            self._refuse(HTTPStatus.REQUEST_HEADER_FIELDS_TOO_LARGE, what)
            return
        try:
            self.url = self._checked_target()
        except ValueError as error:
            self._refuse(HTTPStatus.BAD_REQUEST, str(error))
            return
        self._is_done = True
        self._stop_timer()
        super().handle_websocket_upgrade()

    def _checked_target(self) -> bytes:
        """The path and query of a handshake. Raises ValueError for a handshake that breaks RFC 6455, section 4.2.1."""
        version = self.parser.get_http_version()
        if version != "1.1":
            raise ValueError(f"HTTP/{version}: a WebSocket handshake is an HTTP/1.1 request")
        names = [name for name, _ in self.headers]
        for name in (b"host", b"sec-websocket-key"):
            if names.count(name) != 1:
                raise ValueError(f"{names.count(name)} headers {name.decode()}: a WebSocket handshake has one")
        if self.url.startswith(b"/"):
            return self.url
        try:
            url = httptools.parse_url(self.url)
        except httptools.HttpParserInvalidURLError:
            raise ValueError(f"{self.url[:100]!r}: a request's target is a path or a URL") from None
        return (url.path or b"/") + (b"?" + url.query if url.query else b"")
