"""Real servers on real ports for every test."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest
from fastapi import FastAPI

from openenv.core.env_server.http_server import server

Serving = Callable[[FastAPI], str]


@contextmanager
def running(app: FastAPI) -> Iterator[str]:
    """Serve `app` in a thread of its own; yields its base URL."""
    uvicorn_server = server(app, "127.0.0.1", 0, log_level="error")
    thread = threading.Thread(target=uvicorn_server.run, daemon=True)
    thread.start()
    while not uvicorn_server.started:
        assert thread.is_alive(), "the server did not start"
        time.sleep(0.01)
    port = uvicorn_server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        uvicorn_server.should_exit = True
        thread.join(10)


@pytest.fixture
def serving() -> Iterator[Serving]:
    """Serve an application until the test ends; returns its base URL."""
    with_servers = []

    def start(app: FastAPI) -> str:
        context = running(app)
        with_servers.append(context)
        return context.__enter__()

    yield start
    for context in with_servers:
        context.__exit__(None, None, None)
