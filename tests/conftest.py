"""Real servers on real ports for every test, and tools on PATH that start them."""

import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI

from openenv.core.env_server.http_server import server
from tests.core.containers import fake_tools

Serving = Callable[[FastAPI], str]

httpx._config.DEFAULT_TIMEOUT_CONFIG.read = 60.0  # a busy machine takes its time to start a worker process


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


@pytest.fixture
def socket_folder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """Where sockets beside ports are in this test, and no others: a path of theirs has to be short."""
    with tempfile.TemporaryDirectory(dir="/tmp") as base:
        monkeypatch.setattr(tempfile, "tempdir", base)
        yield Path(base) / f"openenv-{os.getuid()}"


@pytest.fixture
def tools(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The folder of the tools' state; no server of theirs outlives the test."""
    monkeypatch.setenv("PATH", str(fake_tools.install(tmp_path)), prepend=":")
    monkeypatch.setenv("FAKE_TOOLS", str(tmp_path))
    yield tmp_path
    left = list(tmp_path.glob("*.json"))
    monkeypatch.setattr(fake_tools, "FOLDER", tmp_path)
    for state in left:
        fake_tools.stop_server(state.stem, forget=True, what="left")
    assert left == [], "a test left a container behind"


@pytest.fixture
def calls_of(tools: Path) -> Callable[[str], list[list[str]]]:
    """The arguments of each call of a tool so far."""
    return lambda tool: fake_tools.calls(tools, tool)
