"""Gives this package's connections to every uvicorn that runs an application of ours: `uvicorn module:app` too."""

import asyncio
import contextlib
import gc
import threading
from collections.abc import AsyncIterator
from functools import partial
from typing import Any

import uvicorn
from fastapi import FastAPI
from uvicorn.lifespan.on import LifespanOn

from openenv.core.env_server.config import ServerConfig
from openenv.core.env_server.http.http_connection import HttpConnection
from openenv.core.env_server.websocket.connection import WebSocketConnection
from openenv.core.net.busy_poll import LoopSpinner

_FRAME_MARGIN_BYTES = 1 << 20


def use_own_connections(settings: uvicorn.Config, config: ServerConfig) -> None:
    """Let a uvicorn with these loaded settings read connections as this package does; call it before it listens."""
    settings.http_protocol_class = partial(  # type: ignore[assignment]  # uvicorn calls it as it does a class
        HttpConnection, head_timeout_s=config.head_timeout_s, body_timeout_s=config.body_timeout_s
    )
    settings.ws_protocol_class = WebSocketConnection
    settings.ws_per_message_deflate = False
    # A message above the limit gets an error that names the limit; only one far above closes the connection.
    settings.ws_max_size = 2 * config.max_message_bytes + _FRAME_MARGIN_BYTES


def add_own_connections(app: FastAPI, config: ServerConfig) -> None:
    """Let `app`, when a uvicorn starts it, set the server up, unless the server's user has chosen protocols.

    Under any other server, frames pass through ASGI.
    """
    around = app.router.lifespan_context

    @contextlib.asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[Any]:
        if not config.busy_poll:
            LoopSpinner.of(asyncio.get_running_loop()).disable()
        if threading.current_thread() is threading.main_thread():  # else it is a program that does other things, too
            gc.collect()
            gc.freeze()  # the collector need not visit again what the program has loaded
        starter = _starter()
        if starter is not None and starter.config.ws == starter.config.http == "auto":
            use_own_connections(starter.config, config)
        try:
            async with around(app) as state:
                yield state
        finally:
            gc.unfreeze()

    app.router.lifespan_context = lifespan


def _starter() -> LifespanOn | None:
    """What uvicorn starts the application with: the object whose method is the running task. ASGI has no way to it."""
    task = asyncio.current_task()
    frame = None if task is None else getattr(task.get_coro(), "cr_frame", None)
    starter = None if frame is None else frame.f_locals.get("self")
    return starter if isinstance(starter, LifespanOn) else None
