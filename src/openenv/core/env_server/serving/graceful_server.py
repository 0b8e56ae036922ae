"""uvicorn as this package runs it: its own WebSockets, and a shutdown that finishes running steps."""

import asyncio
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.serving.app_loader import setting_of
from openenv.core.env_server.serving.http_connection import HttpConnection
from openenv.core.env_server.websocket.connection import WebSocketConnection
from openenv.core.net.busy_poll import LoopSpinner

if TYPE_CHECKING:
    from fastapi import FastAPI


_FRAME_MARGIN_BYTES = 1 << 20
_SHUTDOWN_TIMEOUT_S = 3


def enable_keepalive(listener: socket.socket) -> None:
    """Let the kernel probe the connections that `listener` accepts, and break those whose client has vanished.

    The first probe follows a minute of silence; four that are not answered, 15 s apart, break the connection.
    """
    if listener.family not in (socket.AF_INET, socket.AF_INET6):
        return
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    for option, value in (("TCP_KEEPIDLE", 60), ("TCP_KEEPINTVL", 15), ("TCP_KEEPCNT", 4)):
        if hasattr(socket, option):  # Linux
            listener.setsockopt(socket.IPPROTO_TCP, getattr(socket, option), value)


class GracefulServer(uvicorn.Server):
    """Lets steps that run finish, and their responses leave, before it closes connections."""

    def __init__(self, app: "FastAPI", *, log_level: str, **address: Any) -> None:
        """address: uvicorn's settings of where to listen."""
        self._sessions = setting_of(app, "sessions")
        config: ServerConfig = setting_of(app, "config") or ServerConfig()
        self._busy_poll = config.busy_poll
        # A message above the limit gets an error that names the limit; only one far above closes the connection.
        max_frame_bytes = 2 * config.max_message_bytes + _FRAME_MARGIN_BYTES
        http = partial(HttpConnection, head_timeout_s=config.head_timeout_s, body_timeout_s=config.body_timeout_s)
        super().__init__(
            uvicorn.Config(
                app, log_level=log_level, loop="uvloop", ws=WebSocketConnection, http=http,  # type: ignore[arg-type]
                ws_max_size=max_frame_bytes, ws_per_message_deflate=False,
                proxy_headers=bool(config.trusted_proxies), forwarded_allow_ips=list(config.trusted_proxies),
                timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S, **address,
            )
        )  # fmt: skip

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn when the server starts."""
        if not self._busy_poll:
            LoopSpinner.of(asyncio.get_running_loop()).disable()
        await super().startup(sockets)
        for server in self.servers:
            for listener in server.sockets:
                enable_keepalive(listener)

    def make_connection(self) -> asyncio.Protocol:
        """The protocol of a new connection, as uvicorn makes it."""
        make: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn when the server stops."""
        if self._sessions is not None:
            await self._sessions.drain()
        await super().shutdown(sockets)
