"""One client that sends small frames without a pause leaves the others their turns."""

import socket
import threading
import urllib.request
from contextlib import closing
from urllib.parse import urlsplit

import pytest

from openenv.core.net.frames import PING, PONG, TEXT, client_frame
from openenv.core.net.handshake import ClientHandshake
from openenv.core.net.websocket_protocol import websocket_uri
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.hosting.local_process import LocalServer
from tests.core.net.websocket_cases import RawPeer, Received

pytestmark = [
    pytest.mark.finding("a client that sends without a pause leaves the others their turns"),
    pytest.mark.process,
]

STEP = client_frame(TEXT, b'{"type":"step","data":{"message":"a"}}')
FLOODS = {
    "steps": ("/ws", STEP * 40_000),
    "pings": ("/ws", client_frame(PING, b"") * 400_000),
    "empty pongs": ("/ws", client_frame(PONG, b"") * 1_000_000),
    "requests to /mcp": ("/mcp", client_frame(TEXT, b'{"jsonrpc":"2.0","id":1,"method":"tools/list"}') * 20_000),
    "empty pongs to /mcp": ("/mcp", client_frame(PONG, b"") * 600_000),
}
"""The endpoint, and frames that take the server a second or more."""
END = b"the end of the flood"
FEWEST_STEPS = 10
"""Of the other client while the flood is under way: a server that reads all that has arrived allows two or three."""


@pytest.fixture(scope="module", params=["inline", "thread"])
def url(request):
    with LocalServer("openenv.envs.echo_env.server.app", ["--execution", request.param]) as server:
        yield server.base_url


def opened(url, path):
    """A socket after its handshake with an endpoint."""
    where = urlsplit(url)
    connection = socket.create_connection((where.hostname, where.port), 60)
    handshake = ClientHandshake(websocket_uri(url), ["none"], {})
    connection.sendall(handshake.request.replace(b"GET /ws ", f"GET {path} ".encode()))
    while handshake.feed(connection.recv(4096)) is None:
        pass
    return connection


@pytest.mark.parametrize("kind", FLOODS)
def test_another_client_is_answered_many_times_while_a_flood_is_under_way(url, kind):
    path, frames = FLOODS[kind]
    is_over = threading.Event()
    with EchoEnv(url) as env, closing(opened(url, path)) as connection:
        env.reset()

        def send():
            connection.sendall(frames + client_frame(PING, END))

        def read():
            peer = RawPeer(connection)
            while peer.receive() != Received(PONG, END):
                pass
            is_over.set()

        threads = [threading.Thread(target=work, daemon=True) for work in (read, send)]
        for thread in threads:
            thread.start()
        num_steps = 0
        while not is_over.is_set() and num_steps < 2 * FEWEST_STEPS:
            for _ in range(5):
                env.step(EchoAction(message="hello"))
            urllib.request.urlopen(f"{url}/health", timeout=60).close()
            num_steps += 0 if is_over.is_set() else 5
        for thread in threads:
            thread.join(60)

    assert is_over.is_set(), "the flood was not read to its end"
    assert num_steps >= FEWEST_STEPS
