"""uvicorn as this package runs it: its own WebSockets, a shutdown that finishes running steps, and what to serve."""

import asyncio
import importlib
import socket
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, TypeAlias, TypeGuard

import uvicorn
from httptools import HttpParserUpgrade
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.websocket.connection import WebSocketConnection
from openenv.core.net.busy_poll import LoopSpinner

if TYPE_CHECKING:
    from fastapi import FastAPI


_FRAME_MARGIN_BYTES = 1 << 20
_SHUTDOWN_TIMEOUT_S = 3


class HttpConnection(HttpToolsProtocol):
    """uvicorn's HTTP connection until it upgrades to a WebSocket."""

    def __init__(self, **settings: Any) -> None:
        """settings: uvicorn's."""
        super().__init__(**settings)
        self._received = b""
        """The bytes that are being parsed."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """Called by the event loop; the first request mostly follows at once, so the loop polls for it."""
        super().connection_made(transport)
        spinner = LoopSpinner.of(self.loop)
        spinner.received()
        spinner.arm(self.loop)

    def data_received(self, data: bytes) -> None:
        """Called by the event loop."""
        self._received = data
        super().data_received(data)
        self._received = b""

    def handle_websocket_upgrade(self) -> None:
        """Called by uvicorn after it parsed the head of the request, before any response."""
        upgrade = sys.exc_info()[1]  # uvicorn is handling it; its argument is the length of the head
        if isinstance(upgrade, HttpParserUpgrade) and len(self._received) > upgrade.args[0]:
            self.transport.abort()  # a client sends nothing before its handshake is answered
        else:
            super().handle_websocket_upgrade()


class GracefulServer(uvicorn.Server):
    """Lets steps that run finish, and their responses leave, before it closes connections."""

    def __init__(self, app: "FastAPI", *, log_level: str, **address: Any) -> None:
        """address: uvicorn's settings of where to listen."""
        # an application that an author made around one of ours has neither
        self._sessions = getattr(app.state, "sessions", None)
        config: ServerConfig = getattr(app.state, "config", ServerConfig())
        self._busy_poll = config.busy_poll
        # A message above the limit gets an error that names the limit; only one far above closes the connection.
        max_frame_bytes = 2 * config.max_message_bytes + _FRAME_MARGIN_BYTES
        super().__init__(
            uvicorn.Config(
                app, log_level=log_level, loop="uvloop", ws=WebSocketConnection, http=HttpConnection,
                ws_max_size=max_frame_bytes, ws_per_message_deflate=False,
                timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S, **address,
            )
        )  # fmt: skip

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn when the server starts."""
        if not self._busy_poll:
            LoopSpinner.of(asyncio.get_running_loop()).disable()
        await super().startup(sockets)

    def make_connection(self) -> HttpConnection:
        """The protocol of a new connection, as uvicorn makes it."""
        return HttpConnection(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn when the server stops."""
        if self._sessions is not None:
            await self._sessions.drain()
        await super().shutdown(sockets)


AppSource: TypeAlias = "FastAPI | str | Callable[[], FastAPI]"


def load_app(source: AppSource) -> "FastAPI":
    """The application: `source` itself, what `MODULE:APP` names, or what the function returns.

    Raises LookupError when the module has no such attribute, ImportError, and what the function raises.
    """
    if isinstance(source, str):
        return _import_app(source)
    return source if is_application(source) else source()  # type: ignore[call-arg,return-value]


def is_application(source: AppSource) -> "TypeGuard[FastAPI]":
    """Whether the source is an application already."""
    return hasattr(source, "state")


def _import_app(target: str) -> "FastAPI":
    module_name, _, attribute = target.partition(":")
    module = importlib.import_module(module_name)
    if not attribute or not hasattr(module, attribute):
        raise LookupError(f"module {module_name} has no {attribute!r}: write MODULE:APP, such as my_env.server.app:app")
    app: FastAPI = getattr(module, attribute)
    return app
