"""Serves an ASGI application from a thread of its own."""

import socket
import threading
import time
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import uvicorn

_POLL_INTERVAL_S = 0.01


class ServerThread:
    """One server, which may be started again after it has stopped. Its methods block, and are thread-safe."""

    def __init__(self, name: str) -> None:
        """name: what it serves, in errors."""
        self._name = name
        self._server: uvicorn.Server | None = None
        self._thread: threading.Thread | None = None
        self._is_changing = threading.RLock()

    def start(self, app: Any, host: str = "127.0.0.1", port: int = 0, timeout_s: float = 10.0, **settings: Any) -> int:
        """Serve an application, and return the port; 0 is a free one. settings: further ones of uvicorn.

        Raises OSError for an address that is taken, and TimeoutError if it does not serve in time, or still stops.
        """
        import uvicorn  # keeps `import openenv.agents` light

        with self._is_changing:
            if self._thread is not None:
                raise TimeoutError(f"the server of {self._name} runs, or still stops: call stop() before start()")
            family = socket.AF_INET6 if ":" in host else socket.AF_INET
            listener = socket.create_server((host, port), family=family, backlog=2048)
            found: int = listener.getsockname()[1]
            config = uvicorn.Config(app, log_level="warning", log_config=None, **settings)
            self._server = uvicorn.Server(config)
            self._thread = threading.Thread(target=_serve, args=(self._server, listener), name=self._name, daemon=True)
            self._thread.start()
            deadline = time.monotonic() + timeout_s
            while not self._server.started:
                if time.monotonic() > deadline or not self._thread.is_alive():
                    self.stop()
                    raise TimeoutError(f"the server of {self._name} did not start on {host} in {timeout_s:g} s")
                time.sleep(_POLL_INTERVAL_S)
            return found

    def stop(self, timeout_s: float = 10.0) -> None:
        """Stop, if it runs. A start that is under way ends first.

        Connections have a quarter of `timeout_s` seconds to end, then the application ends its lifespan. Raises
        TimeoutError if that takes longer than `timeout_s` in all.
        """
        with self._is_changing:
            if self._thread is None or self._server is None:
                return
            self._server.config.timeout_graceful_shutdown = timeout_s / 4  # type: ignore[assignment]
            self._server.should_exit = True
            self._thread.join(timeout_s / 2)
            if self._thread.is_alive():
                self._server.force_exit = True  # uvicorn then leaves out what it still waits for
                self._thread.join(timeout_s / 2)
            if self._thread.is_alive():
                raise TimeoutError(f"the server of {self._name} did not stop in {timeout_s:g} s: call stop() again")
            self._thread = self._server = None


def _serve(server: "uvicorn.Server", listener: socket.socket) -> None:
    """Run a server until it is stopped."""
    with listener:
        server.run([listener])
