"""A session and its connection: one connection plays it, and its end closes the connection."""

import contextlib
import socket
import threading
import time

import httpx
import orjson
import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.wire.constants import SUBPROTOCOL
from tests.core.counting_env import CountEnv, CountingEnvironment
from tests.core.env_server.probes import num_sessions, wait_until

EXECUTIONS = ["inline", "thread"]


@pytest.fixture
def connections():
    """Closes what is entered into it."""
    with contextlib.ExitStack() as stack:
        yield stack


def _open(connections, url, session_id=""):
    """A connection in the extended dialect, and the id of its session."""
    query = f"?session_id={session_id}" if session_id else ""
    address = f"{url.replace('http', 'ws')}/ws{query}"
    websocket = connections.enter_context(connect(address, subprotocols=[SUBPROTOCOL]))
    return websocket, orjson.loads(websocket.recv(timeout=20))["data"]["session_id"]


def _ask(websocket, **message):
    websocket.send(orjson.dumps(message).decode())
    return orjson.loads(websocket.recv(timeout=20))


@pytest.mark.finding("a connection that was taken over plays no more")
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_a_connection_that_was_taken_over_steps_no_more_and_learns_why(connections, any_serving, execution):
    url = any_serving(create_app(CountingEnvironment, config=ServerConfig(execution=execution)))
    old, session_id = _open(connections, url)
    _ask(old, type="reset", id="r")
    new, _ = _open(connections, url, session_id)
    with contextlib.suppress(ConnectionClosed):
        for number in range(40):  # more than the ids that the session keeps
            old.send(orjson.dumps({"type": "step", "id": f"late-{number}", "data": {"amount": 1}}).decode())
    with pytest.raises(ConnectionClosed) as closed:
        old.recv(timeout=20)

    assert closed.value.rcvd is not None
    assert "taken the session over" in closed.value.rcvd.reason
    assert _ask(new, type="step", id="s", data={"amount": 1})["data"]["observation"]["total"] == 1


@pytest.mark.finding("a session that ends closes its connection")
@pytest.mark.parametrize("execution", [*EXECUTIONS, "process"])
def test_an_idle_session_ends_with_its_connection_and_the_reason(connections, any_serving, execution):
    url = any_serving(create_app(CountingEnvironment, config=ServerConfig(execution=execution, idle_timeout_s=0.2)))
    websocket, _ = _open(connections, url)
    with pytest.raises(ConnectionClosed) as closed:
        websocket.recv(timeout=20)

    assert closed.value.rcvd is not None
    assert "idle" in closed.value.rcvd.reason
    assert num_sessions(url) == 0


@pytest.mark.finding("a session that ends closes its connection")
@pytest.mark.parametrize("path", ["ws", "mcp"])
def test_a_session_that_is_ended_over_http_closes_its_connection(any_serving, path):
    url = any_serving(create_app(CountingEnvironment))
    with connect(f"{url.replace('http', 'ws')}/{path}") as websocket:
        create = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/create"}
        reply = _ask(websocket, **create) if path == "mcp" else _ask(websocket, type="mcp", data=create)["data"]
        httpx.delete(f"{url}/sessions/{reply['result']['session_id']}").raise_for_status()
        with pytest.raises(ConnectionClosed) as closed:
            websocket.recv(timeout=20)

    assert closed.value.rcvd is not None
    assert "the session has ended" in closed.value.rcvd.reason


class SlowToMake(CountingEnvironment):
    """Takes half a second to make, during which the server may not read."""

    began = threading.Event()

    def __init__(self) -> None:
        super().__init__()
        self.began.set()
        time.sleep(0.5)


HANDSHAKE = (
    "GET /ws HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n"
    f"Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n\r\n"
)


@pytest.mark.finding("a client that leaves while its environment is made holds no slot")
@pytest.mark.parametrize("execution", EXECUTIONS)
def test_a_client_that_leaves_while_its_environment_is_made_holds_no_slot(any_serving, execution):
    config = ServerConfig(execution=execution, max_sessions=3, reconnect_grace_s=600)
    url = any_serving(create_app(SlowToMake, config=config))
    host, port = url.removeprefix("http://").split(":")
    for _ in range(3):
        SlowToMake.began.clear()
        client = socket.create_connection((host, int(port)))
        client.sendall(HANDSHAKE.encode())
        SlowToMake.began.wait(20)
        client.close()

    wait_until(lambda: num_sessions(url) == 0)
    with CountEnv(url) as env:
        assert env.reset(start=2).observation.total == 2
