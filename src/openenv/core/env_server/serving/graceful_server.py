"""uvicorn as this package runs it: its own WebSockets, and a shutdown that finishes running steps."""

import asyncio
import socket
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import uvicorn

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.execution.executors import CLOSE_TIMEOUT_S
from openenv.core.env_server.serving.any_uvicorn import use_own_connections
from openenv.core.env_server.serving.app_loader import setting_of
from openenv.core.env_server.serving.listeners import enable_keepalive

if TYPE_CHECKING:
    from fastapi import FastAPI


_SHUTDOWN_TIMEOUT_S = int(CLOSE_TIMEOUT_S) + 3
"""Long enough for the environments to close."""


class GracefulServer(uvicorn.Server):
    """Lets steps that run finish, and their responses leave, before it closes connections."""

    def __init__(self, app: "FastAPI", *, log_level: str, **address: Any) -> None:
        """address: uvicorn's settings of where to listen."""
        self.on_listening: Callable[[], None] | None = None
        self._sessions = setting_of(app, "sessions")
        config: ServerConfig = setting_of(app, "config") or ServerConfig()
        settings = uvicorn.Config(
            app, log_level=log_level, loop="auto",
            proxy_headers=bool(config.trusted_proxies), forwarded_allow_ips=list(config.trusted_proxies),
            timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S, **address,
        )  # fmt: skip
        settings.load()
        use_own_connections(settings, config)
        super().__init__(settings)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn when the server starts."""
        if self.config.fd is not None:  # uvicorn itself takes an inherited socket for a Unix one
            sockets = [socket.socket(fileno=self.config.fd)]
        await super().startup(sockets)
        for server in self.servers:
            for listener in server.sockets:
                enable_keepalive(listener)
        if self.started and self.on_listening is not None:
            self.on_listening()

    def make_connection(self) -> asyncio.Protocol:
        """The protocol of a new connection, as uvicorn makes it."""
        make: Callable[..., asyncio.Protocol] = self.config.http_protocol_class
        return make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn when the server stops."""
        if self._sessions is not None:
            await self._sessions.drain()
        await super().shutdown(sockets)
