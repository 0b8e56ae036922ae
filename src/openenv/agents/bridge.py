"""Serves an environment's tools to an agent's program on this machine, and nothing else of the environment."""

import socket
import threading
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from openenv.agents.adapter import HarnessError

_POLL_INTERVAL_S = 0.01


class HarnessMCPBridge:
    """An MCP server over HTTP for a FastMCP server of this process, in a thread of its own."""

    def __init__(self, mcp_server: Any, host: str = "127.0.0.1") -> None:
        """host: the address to listen on. The server has no authentication: leave it on the loopback interface."""
        self._mcp_server = mcp_server
        self._host = host
        self._server: Any = None
        self._thread: threading.Thread | None = None
        self._url: str | None = None
        self._is_changing = threading.RLock()

    @property
    def url(self) -> str | None:
        """The address of the tools; None while the server does not run."""
        return self._url

    def start(self, timeout_s: float = 10.0) -> str:
        """Start the server on a free port, and return the address of the tools.

        Raises HarnessError if it does not serve within `timeout_s` seconds, or still stops.
        """
        with self._is_changing:
            if self._thread is not None and self._thread.is_alive():
                if self._url is None:
                    raise HarnessError("the bridge still stops: call stop() again before start()")
                return self._url
            thread, port = self._start_thread()
            deadline = time.monotonic() + timeout_s
            while not self._server.started:
                if time.monotonic() > deadline or not thread.is_alive():
                    self.stop()
                    raise HarnessError(f"the bridge did not start on {self._host} in {timeout_s:g} s: see the log")
                time.sleep(_POLL_INTERVAL_S)
            self._url = f"http://{self._host}:{port}/mcp"
            return self._url

    def _start_thread(self) -> tuple[threading.Thread, int]:
        """The thread of the server, and its port."""
        import uvicorn  # keeps `import openenv.agents` light

        app = self._mcp_server.http_app(path="/mcp")
        listener = socket.socket()
        listener.bind((self._host, 0))
        port = listener.getsockname()[1]
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="warning", log_config=None, lifespan="on"))
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="tools for a harness", daemon=True
        )
        self._thread.start()
        return self._thread, port

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop the server, if it runs; a start that is under way ends first.

        Connections have a quarter of `timeout_s` seconds to end, then the tools' server ends its lifespan. Raises
        HarnessError if that takes longer than `timeout_s` in all.
        """
        with self._is_changing:
            if self._thread is None:
                return
            self._url = None
            self._server.config.timeout_graceful_shutdown = timeout_s / 4
            self._server.should_exit = True
            self._thread.join(timeout_s / 2)
            if self._thread.is_alive():
                self._server.force_exit = True  # uvicorn then leaves out what it still waits for
                self._thread.join(timeout_s / 2)
            if self._thread.is_alive():
                raise HarnessError(f"the bridge did not stop in {timeout_s:g} s: call stop() again")
            self._thread = self._server = None


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
