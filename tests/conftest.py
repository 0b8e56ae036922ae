"""Real servers on real ports, each for a test or for a module, and tools on PATH that start them."""

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn
from docker import DockerClient
from docker.models.containers import Container
from fastapi import FastAPI

from openenv.hosting.engine.owner import OWNER_PID
from openenv.hosting.serving.server import server
from tests.core.pouring_server import PouringServer
from tests.hosting import engines, fake_tools

os.environ.setdefault("OMP_NUM_THREADS", "1")  # each worker of pytest-xdist has one core, and torch is not loaded yet

Serving = Callable[[FastAPI], str]

httpx._config.DEFAULT_TIMEOUT_CONFIG.read = 60.0  # a busy machine takes its time to start a worker process


@contextmanager
def running(app: FastAPI, *, port: int = 0, is_plain: bool = False) -> Iterator[str]:
    """Serve `app` in a thread of its own; yields its base URL. is_plain: by uvicorn as it comes, over ASGI."""
    uvicorn_server = server(app, "127.0.0.1", port, log_level="error")
    if is_plain:
        uvicorn_server = uvicorn.Server(uvicorn.Config(app, port=port, log_level="error", log_config=None))
    startup, has_started = uvicorn_server.startup, threading.Event()

    async def start(**sockets: object) -> None:
        await startup(**sockets)
        has_started.set()

    def run() -> None:
        try:
            uvicorn_server.run()
        finally:
            has_started.set()

    uvicorn_server.startup = start
    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    has_started.wait()
    assert uvicorn_server.started, "the server did not start"
    port = uvicorn_server.servers[0].sockets[0].getsockname()[1]
    try:
        yield f"http://127.0.0.1:{port}"
    finally:
        uvicorn_server.should_exit = True
        thread.join(10)


def _serving() -> Iterator[Serving]:
    with ExitStack() as servers:
        yield lambda app: servers.enter_context(running(app))


serving = pytest.fixture(_serving, name="serving")
"""Serve an application until the test ends; returns its base URL."""
module_serving = pytest.fixture(_serving, name="module_serving", scope="module")


@pytest.fixture
def pouring() -> Iterator[Callable[..., str]]:
    """Starts servers that send bytes without end, as `PouringServer` has it. Returns the URL."""
    with ExitStack() as stack:

        def start(head: bytes, chunk: bytes, *, pause_s: float = 0.0) -> str:
            server = PouringServer(head, chunk, pause_s=pause_s)
            stack.callback(server.close)
            return server.url

        yield start


"""Serve an application until the last test of the module ends; returns its base URL."""


@pytest.fixture(params=[False, True], ids=["own server", "plain uvicorn"])
def any_serving(request: pytest.FixtureRequest) -> Iterator[Serving]:
    """`serving`, by the package's own server and by uvicorn as it comes."""
    with ExitStack() as servers:
        yield lambda app: servers.enter_context(running(app, is_plain=request.param))


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


@pytest.fixture(scope="session")
def engine() -> Iterator[DockerClient]:
    """A Docker engine, which DOCKER_HOST names, with images of the echo, openspiel and coding environments."""
    with engines.engine_of_this_run(os.environ.get("PYTEST_XDIST_TESTRUNUID", str(os.getpid()))) as client:
        yield client


@pytest.fixture
def containers(engine: DockerClient) -> Iterator[Callable[[], list[Container]]]:
    """This process's containers, with those that have ended; no test leaves one behind."""
    own = {"label": f"{OWNER_PID}={os.getpid()}"}
    yield lambda: engine.containers.list(all=True, filters=own, ignore_removed=True)
    left = engine.containers.list(all=True, filters=own)
    for container in left:
        container.remove(force=True)
    assert left == [], "a test left a container behind"


@pytest.fixture
def name_echo_image(engine: DockerClient) -> Iterator[Callable[[str], None]]:
    """Give the image of the echo environment a further name for the length of a test."""
    names: list[str] = []

    def add(name: str) -> None:
        repository, tag = name.rsplit(":", 1)
        engine.images.get("echo-env").tag(repository, tag)
        names.append(name)

    yield add
    for name in names:
        engine.images.remove(name)
