"""Serves an environment's tools to an agent's program on this machine, and nothing else of the environment."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from openenv.agents.adapter import HarnessError
from openenv.agents.endpoint.server_thread import ServerThread


class HarnessMCPBridge:
    """An MCP server over HTTP for a FastMCP server of this process, in a thread of its own."""

    def __init__(self, mcp_server: Any, host: str = "127.0.0.1") -> None:
        """host: the address to listen on. The server has no authentication: leave it on the loopback interface."""
        self._mcp_server = mcp_server
        self._host = host
        self._server = ServerThread("tools for a harness")
        self._url: str | None = None

    @property
    def url(self) -> str | None:
        """The address of the tools; None while the server does not run."""
        return self._url

    def start(self, timeout_s: float = 10.0) -> str:
        """Start the server on a free port, and return the address of the tools.

        Raises HarnessError if it does not serve within `timeout_s` seconds, or still stops.
        """
        if self._url is None:
            app = self._mcp_server.http_app(path="/mcp")
            try:
                port = self._server.start(app, self._host, timeout_s=timeout_s, lifespan="on")
            except TimeoutError as error:
                raise HarnessError(str(error)) from error
            self._url = f"http://{self._host}:{port}/mcp"
        return self._url

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop the server, if it runs. Raises HarnessError if that takes longer than `timeout_s` seconds."""
        self._url = None
        try:
            self._server.stop(timeout_s)
        except TimeoutError as error:
            raise HarnessError(str(error)) from error


async def build_bridge_server(mcp_server: Any, renames: dict[str, str]) -> Any:
    """A FastMCP server with the tools of another one, some under other names.

    renames: the name of now to the tool's own name. Without renames, the server itself is returned. The lifespan of
    `mcp_server` lasts as long as that of the returned server, and each connection has a session of its own with it.
    Raises HarnessError for a tool that `mcp_server` does not have.
    """
    if not renames:
        return mcp_server
    from fastmcp import Client  # the extra `mcp`
    from fastmcp.server.providers.proxy import FastMCPProxy, StatefulProxyClient
    from fastmcp.server.transforms import ToolTransform
    from fastmcp.tools.tool_transform import ToolTransformConfig

    missing = set(renames.values()) - {tool.name for tool in await mcp_server.list_tools()}
    if missing:
        raise HarnessError(f"renames: the server {mcp_server.name!r} has no tool {', '.join(sorted(missing))}")

    @asynccontextmanager
    async def source_lifespan(_: Any) -> AsyncIterator[dict[str, Any]]:
        async with Client(mcp_server):
            yield {}

    sessions: Any = StatefulProxyClient(mcp_server)
    renamed = FastMCPProxy(name=mcp_server.name, client_factory=sessions.new_stateful, lifespan=source_lifespan)
    renamed.add_transform(ToolTransform({own: ToolTransformConfig(name=name) for name, own in renames.items()}))
    return renamed
