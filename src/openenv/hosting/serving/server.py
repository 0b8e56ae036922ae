"""Runs the server of an application or environment in this process, under uvicorn."""

import asyncio
import threading
from functools import partial
from typing import TYPE_CHECKING, Any

from openenv.core.env_server.config import ServerConfig
from openenv.core.wire.constants import INHERITED, UNIX
from openenv.hosting.serving.listeners import announce_app, open_listeners, warn_if_exposed
from openenv.hosting.serving.program_exit import INTERRUPTED, children_end_at_exit, exit_on_sigterm

if TYPE_CHECKING:
    from openenv.hosting.serving.app_loader import AppSource
    from openenv.hosting.serving.graceful_server import GracefulServer


def serve(
    app: "AppSource", host: str = "127.0.0.1", port: int = 8000, *, log_level: str = "warning", workers: int = 1
) -> None:
    """Run `app` until SIGINT or SIGTERM; steps that run are finished first.

    A line on stderr says where it serves, once it does. After SIGTERM a program that serves in its main thread exits
    with 0, after Ctrl-C with 130.

    Args:
        app: an application, an Environment class, a function that returns an application or an environment, or
            `MODULE:NAME` of one of these.
        host: an address, `unix:/run/echo.sock` for a Unix socket, or `fd:0` for a listening socket that this program
            has inherited as that file descriptor.
        workers: processes that share the sessions behind the port; more than 1 need `MODULE:NAME`, or a class or
            function of a module.

    Raises:
        ValueError: where an event loop runs already, as in a notebook, for workers that cannot run, and for an app that
            cannot be served.
        LookupError: if `MODULE:NAME` does not exist.
        OSError: if it cannot listen.
    """
    _refuse_running_loop()
    if workers < 1:
        raise ValueError(f"workers={workers}: give 1, or as many as the machine has cores")
    if workers > 1:
        # imported only by a server with workers, as FastAPI and uvicorn are
        from openenv.hosting.workers.supervisor import serve_with_workers

        serve_with_workers(app, host, port, workers=workers, log_level=log_level)
        return
    if threading.current_thread() is threading.main_thread():
        # uvicorn raises the signal again, after its shutdown, for the handler of before
        exit_on_sigterm()
    with children_end_at_exit():
        running = server(app, host, port, log_level=log_level)
        listeners = None
        if not host.startswith((UNIX, INHERITED)):
            listeners = open_listeners(host, port)
            port = listeners[0].getsockname()[1]
        running.on_listening = partial(announce_app, running.config.app, host, port)
        try:
            running.run(listeners)
        except KeyboardInterrupt:
            raise SystemExit(INTERRUPTED) from None  # the server has stopped, and there is nothing to trace back


def _refuse_running_loop() -> None:
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise ValueError(
        "serve() returns when its server ends, and an event loop runs here already, as in a notebook: write `await "
        "server(app, host, port).serve()` (from openenv.hosting.serving.server), or run `openenv serve` beside it"
    )


def server(app: "AppSource", host: str, port: int, *, log_level: str = "warning") -> "GracefulServer":
    """A server for `app`, not yet running, with the arguments of `serve`. Port 0 takes a free one."""
    # imported only by a running server, as FastAPI is
    from openenv.hosting.serving.app_loader import load_app, setting_of
    from openenv.hosting.serving.graceful_server import GracefulServer

    application = load_app(app)
    warn_if_exposed(host, setting_of(application, "config") or ServerConfig())
    where: dict[str, Any] = {"host": host, "port": port}
    if host.startswith(UNIX):
        where = {"uds": host.removeprefix(UNIX)}
    elif host.startswith(INHERITED):
        where = {"fd": int(host.removeprefix(INHERITED))}
    return GracefulServer(application, log_level=log_level, **where)
