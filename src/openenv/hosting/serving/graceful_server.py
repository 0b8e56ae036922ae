"""uvicorn as this package runs it: its own WebSockets, and a shutdown that finishes running steps, or sessions."""

import asyncio
import socket
from collections.abc import Callable
from types import FrameType
from typing import TYPE_CHECKING, Any

import uvicorn
from starlette.types import ASGIApp, Receive, Scope, Send

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.execution.executors import CLOSE_TIMEOUT_S
from openenv.core.env_server.http.any_uvicorn import use_own_connections
from openenv.hosting.serving.app_loader import setting_of
from openenv.hosting.serving.listeners import enable_keepalive, open_unix_listener

if TYPE_CHECKING:
    from fastapi import FastAPI


_ANY_PROXY = "*"
_FORWARDED_FOR = b"x-forwarded-for"
_SHUTDOWN_TIMEOUT_S = int(CLOSE_TIMEOUT_S) + 3
"""Long enough for the environments to close."""


class _NearestCaller:
    """ASGI middleware that keeps the last address of X-Forwarded-For: the caller that the nearest proxy has seen.

    uvicorn takes the first one where all proxies are trusted, which is what the caller has written itself.
    """

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "lifespan":
            chain = b",".join(value for name, value in scope["headers"] if name == _FORWARDED_FOR)
            others = [header for header in scope["headers"] if header[0] != _FORWARDED_FOR]
            scope["headers"] = [*others, (_FORWARDED_FOR, chain.rpartition(b",")[2].strip())] if chain else others
        await self._app(scope, receive, send)


class GracefulServer(uvicorn.Server):
    """Lets steps that run finish, and their responses leave, before it closes connections."""

    def __init__(self, app: "FastAPI", *, log_level: str, **address: Any) -> None:
        """address: uvicorn's settings of where to listen."""
        self.on_listening: Callable[[], None] | None = None
        self._sessions: Any = setting_of(app, "sessions")
        self._loop: asyncio.AbstractEventLoop | None = None
        """The event loop, once the server stops."""
        config: ServerConfig = setting_of(app, "config") or ServerConfig()
        proxies = list(config.trusted_proxies)
        trusts_all = _ANY_PROXY in proxies
        settings = uvicorn.Config(
            app, log_level=log_level, log_config=None, loop="auto",  # uvicorn's own closes all handlers of the program
            proxy_headers=bool(config.trusted_proxies), forwarded_allow_ips=[_ANY_PROXY] if trusts_all else proxies,
            timeout_graceful_shutdown=_SHUTDOWN_TIMEOUT_S, **address,
        )  # fmt: skip
        settings.load()
        if trusts_all:
            settings.loaded_app = _NearestCaller(settings.loaded_app)
        use_own_connections(settings, config)
        super().__init__(settings)

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Called by uvicorn when the server starts."""
        if self.config.fd is not None:  # uvicorn itself takes an inherited socket for a Unix one
            sockets = [socket.socket(fileno=self.config.fd)]
        elif self.config.uds is not None:  # uvicorn's own is open to every user of the machine
            sockets = [open_unix_listener(self.config.uds)]
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
            self._loop = asyncio.get_running_loop()
            await self._sessions.drain()
        await super().shutdown(sockets)

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        """Called by uvicorn. A second Ctrl-C lets no session go on."""
        super().handle_exit(sig, frame)
        if self.force_exit and self._loop is not None:
            self._loop.call_soon_threadsafe(self._sessions.finish_drain)
