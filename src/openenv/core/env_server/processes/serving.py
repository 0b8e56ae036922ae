"""Serves one application from several processes, behind one port."""

import asyncio
import logging
import sys
import threading
from functools import partial

from openenv.core.env_server.app_source import AppSource, is_application, made_from
from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.exposure import warn_if_exposed
from openenv.core.env_server.processes.front_door import listeners
from openenv.core.env_server.processes.supervisor import Supervisor
from openenv.core.env_server.sessions import Sessions
from openenv.core.local_socket import LocalListener
from openenv.core.protocol import UNIX

log = logging.getLogger(__name__)


def serve_with_workers(source: AppSource, host: str, port: int, *, workers: int, log_level: str) -> None:
    """`serve` with two workers or more. Each makes the application anew, as this process does once, to know its limits.

    Raises ValueError for what only one process can serve, OSError when it cannot listen, and RuntimeError when a
    worker ends before all have begun to serve.
    """
    if sys.platform != "linux":
        raise ValueError(f"workers={workers}: several processes behind one port need Linux. Serve with workers=1")
    if host.startswith(UNIX):
        raise ValueError(f"host={host}: several workers share a port. Serve on an address, or with workers=1")
    if threading.current_thread() is not threading.main_thread():
        raise ValueError(f"workers={workers}: serve from the main thread, which signals reach, or with workers=1")
    if is_application(source):
        raise ValueError(
            f"workers={workers}: every worker makes an application of its own. Give serve() 'MODULE:APP', or a "
            "function of a module that returns the application"
        )
    app = made_from(source)
    sessions: Sessions | None = getattr(app.state, "sessions", None)
    if sessions is None:
        raise ValueError(
            f"workers={workers}: the application knows no sessions, so a client could not be led back to its own. "
            "Serve what create_app returns, or an application that HTTPEnvServer registered its routes in"
        )
    if sessions.max_sessions < workers:
        log.warning("workers=%d: no more than %d of them will have a session, for the server allows no more at one "
                    "time", workers, sessions.max_sessions)  # fmt: skip
    config: ServerConfig = app.state.config
    warn_if_exposed(host, config)
    supervisor = Supervisor(partial(made_from, source), workers, sessions.max_sessions, config, log_level)
    opened = listeners(host, port)
    local = [one for listener in opened if (one := LocalListener.beside(listener)) is not None]
    try:
        asyncio.run(supervisor.run([*opened, *(one.socket for one in local)]))
    finally:
        for one in local:
            one.remove()
        for listener in opened:
            listener.close()
