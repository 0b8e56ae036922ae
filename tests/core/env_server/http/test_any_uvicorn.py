"""`uvicorn module:app` and `uvicorn.run(app)` read connections as `openenv serve` does."""

import asyncio
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import uvicorn
from fastapi import FastAPI
from fastapi.testclient import TestClient
from websockets.sync.client import connect

from openenv.core.env_server import create_app
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.generic_client import GenericEnvClient
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment

pytestmark = pytest.mark.finding("a step that blocks stops no other session, and an undeclared execution is fast")


@contextmanager
def plain_uvicorn(app, **settings) -> Iterator[str]:
    """Serve an application as its author would, with uvicorn's defaults."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="error", log_config=None, **settings))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
    finally:
        server.should_exit = True
        thread.join(10)


def registered_app() -> FastAPI:
    app = FastAPI()
    HTTPEnvServer(CountingEnvironment).register_routes(app)
    return app


def _connected(url: str) -> socket.socket:
    return socket.create_connection(("127.0.0.1", int(url.rsplit(":", 1)[1])))


@pytest.mark.parametrize("make", [lambda: create_app(CountingEnvironment), registered_app])
def test_the_limit_of_a_message_is_that_of_the_configuration_and_not_uvicorns(make):
    with plain_uvicorn(make()) as url, GenericEnvClient(base_url=url).sync() as env:
        env.reset()

        assert env.step({"amount": 1, "mischief": "x" * (17 << 20)}).observation["total"] == 1


def test_an_endless_head_is_refused():
    with plain_uvicorn(create_app(CountingEnvironment)) as url, _connected(url) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nx: " + b"y" * (100 << 10))

        assert connection.recv(100).startswith(b"HTTP/1.1 431 ")


def test_an_offer_to_compress_is_declined():
    with plain_uvicorn(create_app(CountingEnvironment)) as url, connect(f"ws{url[4:]}/ws") as connection:
        assert "Sec-WebSocket-Extensions" in connection.request.headers
        assert "Sec-WebSocket-Extensions" not in connection.response.headers


def test_another_protocol_that_the_user_chose_plays_through_asgi():
    with plain_uvicorn(create_app(CountingEnvironment), ws="websockets-sansio") as url, CountEnv(url) as env:
        env.reset()

        assert env.step(CountAction(amount=2)).observation.total == 2


class SlowAccept:
    """Middleware that awaits something after it has accepted a connection."""

    def __init__(self, app):
        self._app = app

    async def __call__(self, scope, receive, send):
        async def send_and_wait(message):
            await send(message)
            if message["type"] == "websocket.accept":
                await asyncio.sleep(0.1)

        await self._app(scope, receive, send_and_wait)


def test_frames_that_arrive_while_a_middleware_waits_are_answered():
    app = create_app(CountingEnvironment)
    app.add_middleware(SlowAccept)
    with plain_uvicorn(app) as url, connect(f"ws{url[4:]}/ws") as connection:
        connection.send('{"type":"reset","data":{"start":3}}')
        connection.send('{"type":"step","data":{"amount":1}}')

        assert '"total":3' in connection.recv(10)
        assert '"total":4' in connection.recv(10)


def test_an_application_can_be_started_again():
    app = create_app(CountingEnvironment)
    for _ in range(2):
        with TestClient(app) as client:
            assert client.post("/reset", json={}).status_code == 200
