"""Serves an environment's tools to an agent's program on this machine, and nothing else of the environment."""

import socket
import threading
import time
from typing import Any

from openenv.core.harness.adapter import HarnessError

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

    @property
    def url(self) -> str | None:
        """The address of the tools; None while the server does not run."""
        return self._url

    def start(self, timeout_s: float = 10.0) -> str:
        """Start the server on a free port, and return the address of the tools.

        Raises HarnessError if it does not serve within `timeout_s` seconds, or still stops.
        """
        if self._url is not None:
            return self._url
        if self._thread is not None:
            raise HarnessError("the bridge still stops: call stop() again before start()")
        import uvicorn  # keeps `import openenv.core.harness` light

        listener = socket.socket()
        listener.bind((self._host, 0))
        app = self._mcp_server.http_app(path="/mcp")
        self._server = uvicorn.Server(uvicorn.Config(app, log_level="warning", lifespan="on"))
        self._thread = threading.Thread(
            target=self._server.run, args=([listener],), name="tools for a harness", daemon=True
        )
        self._thread.start()
        deadline = time.monotonic() + timeout_s
        while not self._server.started:
            if time.monotonic() > deadline or not self._thread.is_alive():
                self.stop()
                raise HarnessError(f"the bridge did not start on {self._host} in {timeout_s:g} s: see the log")
            time.sleep(_POLL_INTERVAL_S)
        self._url = f"http://{self._host}:{listener.getsockname()[1]}/mcp"
        return self._url

    def stop(self, timeout_s: float = 5.0) -> None:
        """Stop the server, if it runs. Raises HarnessError if that takes longer than `timeout_s` seconds."""
        if self._thread is None:
            return
        self._url = None
        self._server.should_exit = self._server.force_exit = True
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            raise HarnessError(f"the bridge did not stop in {timeout_s:g} s: call stop() again")
        self._thread = self._server = None


def build_bridge_server(mcp_server: Any, renames: dict[str, str]) -> Any:
    """A FastMCP server with the tools of another one, some under other names.

    renames: the name of now to the tool's own name. Without renames, the server itself is returned.
    """
    if not renames:
        return mcp_server
    from fastmcp import FastMCP  # the extra `mcp`

    renamed: Any = FastMCP(mcp_server.name)
    renamed.mount(mcp_server, tool_names={own: name for name, own in renames.items()})
    return renamed
