"""uvicorn's HTTP connection, whose WebSockets are this package's own."""

import asyncio
import sys
from typing import Any
from urllib.parse import unquote

from httptools import HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from openenv.core.env_server.asgi import Scope
from openenv.core.env_server.short_way import ShortWay
from openenv.core.env_server.websocket_connection import WebSocketConnection
from openenv.core.watching import LoopWatch


class HttpConnection(HttpToolsProtocol):
    """A connection until it asks for a WebSocket."""

    def __init__(self, short_way: ShortWay, **told: Any) -> None:
        """told: by uvicorn."""
        super().__init__(**told)
        self._short_way = short_way
        self._beside: tuple[str, int] | None = None
        self._newest = b""
        """What is being read."""

    def stand_beside(self, address: tuple[str, int]) -> "HttpConnection":
        """This connection comes through the Unix socket beside that address; applications see one to the address."""
        self._beside = address
        return self

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by the event loop: the first request comes at once, as a rule."""
        super().connection_made(transport)
        if self._beside is not None:
            self.server, self.client = self._beside, (self._beside[0], 0)
        watch = LoopWatch.of(self.loop)
        watch.heard()
        watch.expect(self.loop)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self._newest = data
        super().data_received(data)
        self._newest = b""

    def handle_websocket_upgrade(self) -> None:
        """Called by uvicorn with the head of the request read, and nothing answered."""
        self.connections.discard(self)
        upgrade = sys.exc_info()[1]  # which uvicorn handles: it says how many bytes the head has
        if isinstance(upgrade, HttpParserUpgrade) and len(self._newest) > upgrade.args[0]:
            self.transport.abort()  # no client speaks before its handshake is answered
            return
        scope = self._websocket_scope()
        connection = WebSocketConnection(self.config, self.server_state, self.transport, self.loop, scope)
        self.transport.set_protocol(connection)
        self.parser = None  # type: ignore[assignment]  # which refers to this object: for the garbage collector it would be a cycle
        if self.flow.write_paused:
            connection.pause_writing()
        connection.begin(self._short_way.to(scope["path"]) or self.config.loaded_app)

    def _websocket_scope(self) -> Scope:
        """ASGI's, of what was read."""
        raw_path, _, query = self.url.partition(b"?")
        headers = self.scope["headers"]
        offered = b",".join(value for name, value in headers if name == b"sec-websocket-protocol").decode("latin-1")
        scope: dict[str, Any] = {
            **self.scope,
            "type": "websocket",
            "asgi": {"version": self.asgi_version, "spec_version": "2.4"},
            "scheme": "wss" if self.scheme == "https" else "ws",
            "path": self.root_path + unquote(raw_path.decode("latin-1")),
            "raw_path": self.root_path.encode() + raw_path,
            "query_string": query,
            "subprotocols": [name.strip() for name in offered.split(",")] if offered else [],
        }
        return scope
