"""What a fuzzer found: requests that repeat badly, and what must come back all the same."""

import contextlib
import json

import pytest
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.wire.constants import SUBPROTOCOL
from openenv.hosting.local_process import LocalServer
from tests.core.counting_env import CountingEnvironment

pytestmark = pytest.mark.process

HUGE = "9" * 400
NEST = "[" * 500 + "1" + "]" * 500
TOOLS = '{"jsonrpc": "2.0", "id": %s, "method": "openenv/session/create", "params": {}}'


@pytest.fixture
def connected(serving):
    """Opens a WebSocket on a new server: `connected(path, extended=..., config=...)`."""
    stack = contextlib.ExitStack()

    def open_one(path="/ws", *, extended=False, **config):
        url = serving(create_app(CountingEnvironment, config=ServerConfig(**config)))
        protocols = [SUBPROTOCOL] if extended else None
        socket_url = url.replace("http", "ws") + path
        connection = stack.enter_context(connect(socket_url, subprotocols=protocols, compression=None))
        if extended:
            connection.recv(5)
        return connection

    with stack:
        yield open_one


def answer(connection, frame):
    connection.send(frame)
    return json.loads(connection.recv(5))


def test_an_id_of_half_a_surrogate_pair_comes_back(connected):
    connection = connected(extended=True)
    for frame in ('{"type": "reset", "id": "\\ud800"}', '{"type": "state", "id": "\\ud800"}'):
        assert answer(connection, frame)["id"] == "\ud800"


@pytest.mark.parametrize("path", ["/ws", "/mcp"])
@pytest.mark.parametrize("request_id", [HUGE, '"\\ud800"'])
def test_a_tool_request_is_answered_under_any_id(connected, path, request_id):
    request = TOOLS % request_id
    received = answer(connected(path), request if path == "/mcp" else f'{{"type": "mcp", "data": {request}}}')

    assert (received if path == "/mcp" else received["data"])["id"] == json.loads(request_id)


@pytest.mark.parametrize("extended", [False, True])
@pytest.mark.parametrize(
    "frame",
    [
        '{"type": "reset", "data": {"seed": "\\ud800"}}',
        '{"type": "step", "data": {"amount": "\\ud800"}}',
        '{"type": "step", "data": {"amount": 1, "\\ud800": 2}}',
        f'{{"type": "step", "data": {{"amount": {NEST}}}}}',
        f'{{"type": "step", "data": {NEST}}}',
        f'{{"type": {NEST}}}',
    ],
)
def test_what_cannot_be_repeated_as_it_came_is_refused_and_the_session_lives(connected, extended, frame):
    connection = connected(extended=extended)
    assert answer(connection, frame)["type"] == "error"
    assert answer(connection, '{"type": "reset"}')["type"] == "observation"


@pytest.mark.parametrize("value", [HUGE, '"\\ud800"', NEST])
def test_a_value_that_cannot_be_sent_to_a_process_is_refused_and_the_session_lives(connected, value):
    connection = connected(execution="process")
    answer(connection, '{"type": "reset"}')
    received = answer(connection, f'{{"type": "step", "data": {{"amount": 1, "metadata": {{"odd": {value}}}}}}}')

    assert received["data"]["code"] == "VALIDATION_ERROR"
    assert answer(connection, '{"type": "step", "data": {"amount": 1}}')["data"]["observation"]["total"] == 1


@pytest.mark.parametrize("value", [HUGE, '"\\ud800"'])
def test_a_recorder_writes_whatever_came(connected, tmp_path, value):
    connection = connected(record_dir=tmp_path)
    received = answer(connection, f'{{"type": "reset", "data": {{"odd": {value}}}}}')
    (recording,) = tmp_path.glob("*.jsonl")

    assert received["type"] == "error"
    assert json.loads(recording.read_text().splitlines()[1])["data"]["odd"] == json.loads(value)


@pytest.mark.finding("frames follow RFC 6455")
@pytest.mark.parametrize("path", ["/ws", "/mcp"])
def test_text_that_is_no_utf8_closes_the_connection_and_is_no_failure_of_the_server(path):
    with LocalServer("tests.core.counting_env") as server:
        with connect(server.base_url.replace("http", "ws") + path, compression=None) as connection:
            for _ in range(300):
                connection.send('{"type": "reset"}')
            connection.send(b'{"type": "\xff"}', text=True)
            with contextlib.suppress(ConnectionClosed):
                while True:
                    connection.recv(5)

        assert connection.close_code == 1007
        assert "Exception in ASGI" not in server.output()
