"""uvicorn as this package runs it."""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Any

import uvicorn

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.http_connection import HttpConnection
from openenv.core.env_server.short_way import ShortWay
from openenv.core.env_server.websocket_connection import WebSocketConnection
from openenv.core.local_socket import BACKLOG, LocalListener
from openenv.core.trunk import Trunk

if TYPE_CHECKING:
    from fastapi import FastAPI


class DrainingServer(uvicorn.Server):
    """Lets steps that run finish, and their answers leave, before connections are closed."""

    def __init__(self, app: "FastAPI", *, log_level: str, **where: Any) -> None:
        """where: uvicorn's settings of the address to listen on."""
        # an application that an author made around one of ours has neither
        self._sessions = getattr(app.state, "sessions", None)
        config: ServerConfig = getattr(app.state, "config", ServerConfig())
        # A frame above the limit is answered with an error that names the limit; only one far above closes the
        # connection.
        settings = uvicorn.Config(
            app, log_level=log_level, loop="uvloop", ws=WebSocketConnection,
            http=partial(HttpConnection, ShortWay(app)),  # type: ignore[arg-type]  # uvicorn only calls it
            ws_max_size=2 * config.max_message_bytes + (1 << 20), timeout_graceful_shutdown=3, **where,
        )  # fmt: skip
        super().__init__(settings)
        self._beside: list[LocalListener] = []

    def connection(self, beside: tuple[str, int] | None = None) -> HttpConnection:
        """What uvicorn makes for each connection. beside: the address beside which it comes in."""
        make: Any = self.config.http_protocol_class
        made: HttpConnection = make(config=self.config, server_state=self.server_state, app_state=self.lifespan.state)
        return made if beside is None else made.stand_beside(beside)

    async def startup(self, sockets: Any = None) -> None:
        """Called by uvicorn: listen, also beside the port."""
        await super().startup(sockets)
        for listener in [listener for server in self.servers for listener in server.sockets]:
            for makes, for_trunks in ((self.connection, False), (self._trunk, True)):
                beside = LocalListener.beside(listener, for_trunks=for_trunks)
                if beside is not None:
                    self._beside.append(beside)
                    make = partial(makes, beside.address)
                    unix_server = await asyncio.get_running_loop().create_unix_server(
                        make, sock=beside.socket, backlog=BACKLOG
                    )
                    self.servers.append(unix_server)

    def _trunk(self, beside: tuple[str, int]) -> Trunk:
        return Trunk(partial(self.connection, beside), self.server_state.connections)

    async def shutdown(self, sockets: Any = None) -> None:
        """Called by uvicorn when it was asked to stop."""
        if self._sessions is not None:
            await self._sessions.drain()
        for beside in self._beside:
            beside.hide()
        await super().shutdown(sockets)  # which closes their sockets, as of all that it listens on
