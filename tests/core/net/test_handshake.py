"""The opening handshake, at either end: what is wrong is refused by name, and an author's own WebSockets work too."""

import asyncio
import base64
import contextlib
import socket
import threading
import time
from contextlib import closing, contextmanager
from urllib.parse import urlsplit

import pytest
from fastapi import WebSocket, WebSocketDisconnect
from starlette.exceptions import HTTPException
from websockets.exceptions import ConnectionClosed, InvalidStatus
from websockets.sync.client import connect

from openenv.core.env_server import create_app
from openenv.core.errors import ServerUnreachable, Unauthorized
from openenv.core.generic_client import GenericEnvClient
from openenv.core.net.handshake import accept_key
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment
from tests.core.env_server.probes import wait_until

KEY = base64.b64encode(bytes(16)).decode()
ASKED = {
    "Host": "localhost", "Connection": "Upgrade", "Upgrade": "websocket",
    "Sec-WebSocket-Version": "13", "Sec-WebSocket-Key": KEY,
}  # fmt: skip
MAY_ACCEPT = threading.Event()
"""Until then `/slow` answers no handshake."""


@pytest.fixture
def app():
    return create_app(CountingEnvironment)


def answer_to(url, method="GET", path="/ws", **changed):
    """The head and the rest of a server's answer to a handshake. changed: headers, by their last words."""
    headers = {name: changed.get(name.rpartition("-")[2].lower(), value) for name, value in ASKED.items()}
    where = urlsplit(url)
    with closing(socket.create_connection((where.hostname, where.port), 5)) as connection:
        lines = [f"{method} {path} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items())]
        connection.sendall("\r\n".join([*lines, "", ""]).encode())
        answered = b""
        while b"\r\n\r\n" not in answered:
            answered += connection.recv(4096)
    return answered.decode()


def test_the_example_of_the_standard():
    assert accept_key(b"dGhlIHNhbXBsZSBub25jZQ==") == "s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def test_a_right_handshake_is_answered(serving, app):
    answered = answer_to(serving(app))
    assert answered.startswith("HTTP/1.1 101 Switching Protocols\r\n")
    assert f"sec-websocket-accept: {accept_key(KEY.encode()).lower()}\r\n" in answered.lower()


@pytest.mark.parametrize(
    ("wrong", "status", "names"),
    [
        ({"version": "8"}, 426, "Sec-WebSocket-Version: 13"),
        ({"key": "short"}, 400, "Sec-WebSocket-Key"),
        ({"key": "not base64!"}, 400, "Sec-WebSocket-Key"),
        ({"method": "POST"}, 405, "Allow: GET"),
        ({"path": "/nowhere"}, 403, ""),
    ],
)
def test_a_wrong_one_is_refused_by_name(serving, app, wrong, status, names):
    answered = answer_to(serving(app), **wrong)
    assert answered.startswith(f"HTTP/1.1 {status} ")
    assert names in answered


class Passing:
    """A middleware of an author's: sees everything, changes nothing."""

    seen: list[str] = []  # noqa: RUF012

    def __init__(self, app):
        self.app = app

    async def __call__(self, scope, receive, send):
        if scope["type"] == "websocket":
            self.seen.append(scope["path"])
        await self.app(scope, receive, send)


def test_an_authors_middleware_sees_every_session(serving, app):
    Passing.seen.clear()
    app.add_middleware(Passing)
    with CountEnv(serving(app)) as env:
        env.reset()
        assert env.step(CountAction(amount=3)).observation.total == 3
    assert Passing.seen == ["/ws"]


# An author's own endpoints.


@pytest.fixture
def url(serving, app):
    @app.websocket("/twice")
    async def twice(websocket: WebSocket):
        await websocket.accept(subprotocol="b" if "b" in websocket.scope["subprotocols"] else None)
        try:
            while True:
                message = await websocket.receive()
                if message.get("text") == "enough":
                    await websocket.close(4000, "enough messages")
                    return
                if message["type"] == "websocket.disconnect":
                    websocket.app.state.ended = message["code"]
                    return
                if "text" in message:
                    await websocket.send_text(2 * message["text"])
                else:
                    await websocket.send_bytes(2 * message["bytes"])
        except WebSocketDisconnect:
            pass

    @app.websocket("/closed")
    async def closed(websocket: WebSocket):
        await websocket.close()

    @app.websocket("/refused")
    async def refused(websocket: WebSocket):
        raise HTTPException(418, "a teapot")

    @app.websocket("/silent")
    async def silent(websocket: WebSocket):
        return

    @app.websocket("/broken")
    async def broken(websocket: WebSocket):
        await websocket.accept()
        raise RuntimeError("as if it were broken")

    @app.websocket("/polite")
    async def polite(websocket: WebSocket):
        await websocket.accept()
        try:
            await websocket.receive_text()
        except WebSocketDisconnect:
            await websocket.close()  # as many write it, though it is closed already
        websocket.app.state.ended = "politely"

    @app.websocket("/split")
    async def split(websocket: WebSocket):
        await websocket.accept(headers=[(b"x-name", b"one\r\nset-cookie: two")])

    @app.websocket("/slow")
    async def slow(websocket: WebSocket):
        while not MAY_ACCEPT.is_set():  # noqa: ASYNC110  it is set in another thread
            await asyncio.sleep(0.01)
        await websocket.accept()

    @app.websocket("/flood")
    async def flood(websocket: WebSocket):
        await websocket.accept()
        for _ in range(200):
            await websocket.send_bytes(bytes(100_000))

    return serving(app)


def opened(url, path, **settings):
    return connect(url.replace("http", "ws") + path, compression=None, **settings)


def test_texts_and_bytes_pass_and_either_side_may_end_it(url, app):
    with opened(url, "/twice", subprotocols=["a", "b"]) as connection:
        assert connection.subprotocol == "b"
        connection.send("ha")
        connection.send(b"\0" * 70_000)
        assert connection.recv(5) == "haha"
        assert connection.recv(5) == b"\0" * 140_000
        connection.ping().wait(5)
        connection.send("enough")
        with pytest.raises(ConnectionClosed):
            connection.recv(5)
    assert (connection.close_code, connection.close_reason) == (4000, "enough messages")

    with opened(url, "/twice") as connection:
        connection.close(4001)
    wait_until(lambda: getattr(app.state, "ended", None))
    assert app.state.ended == 4001


@pytest.mark.parametrize(("path", "status"), [("/closed", 403), ("/refused", 418), ("/silent", 500)])
def test_a_connection_that_is_not_accepted_gets_an_http_answer(url, path, status):
    with pytest.raises(InvalidStatus) as refused, opened(url, path):
        pass
    assert refused.value.response.status_code == status
    if path == "/refused":
        assert b"teapot" in refused.value.response.body


def test_to_close_what_the_client_has_closed_is_no_failure(url, app, caplog):
    with opened(url, "/polite") as connection:
        connection.close()
    wait_until(lambda: getattr(app.state, "ended", None))
    assert app.state.ended == "politely"
    assert "failed" not in caplog.text


def test_a_header_that_an_endpoint_splits_is_not_sent(url):
    with pytest.raises(InvalidStatus) as refused, opened(url, "/split"):
        pass
    assert refused.value.response.status_code == 500


@pytest.mark.parametrize("pause_s", [0, 0.1])
@pytest.mark.parametrize("early", [b"\x89\x80abcd", b"\x81\x81abcd\x00", b"\x88\x80abcd", b"\xff\xff\xff\xff"])
def test_a_client_that_sends_frames_before_the_handshake_is_answered_is_cut_off(url, early, pause_s, caplog):
    where = urlsplit(url)
    MAY_ACCEPT.clear()
    with closing(socket.create_connection((where.hostname, where.port), 5)) as connection:
        lines = ["GET /slow HTTP/1.1", *(f"{name}: {value}" for name, value in ASKED.items())]
        head = "\r\n".join([*lines, "", ""]).encode()
        connection.sendall(head if pause_s else head + early)
        if pause_s:
            time.sleep(pause_s)
            connection.sendall(early)
        with contextlib.suppress(ConnectionResetError):
            assert connection.recv(100) == b""
    MAY_ACCEPT.set()
    with opened(url, "/twice"):
        time.sleep(0.1)
    assert caplog.text == ""


def test_an_endpoint_that_fails_closes_with_its_own_code(url):
    with opened(url, "/broken") as connection, pytest.raises(ConnectionClosed):
        connection.recv(5)
    assert connection.close_code == 1011


def test_a_client_that_reads_late_gets_everything(url):
    with opened(url, "/flood", max_size=None) as connection:
        size = sum(len(connection.recv(10)) for _ in range(200))
    assert size == 200 * 100_000


# What servers may answer to our clients.


@contextmanager
def saying(answer):
    """A server that sends this to every request, with its key's answer in place of ACCEPT, and closes."""
    with socket.create_server(("127.0.0.1", 0)) as listening:

        def run():
            while True:
                try:
                    connection, _ = listening.accept()
                except OSError:
                    return
                with connection:
                    asked = connection.recv(4096).decode()
                    key = asked.partition("Sec-WebSocket-Key: ")[2].partition("\r\n")[0]
                    connection.sendall(answer.replace("ACCEPT", accept_key(key.encode())).encode())

        threading.Thread(target=run, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"
        listening.shutdown(socket.SHUT_RDWR)


SWITCHING = "HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"


@pytest.mark.parametrize(
    ("answer", "named"),
    [
        ("HTTP/1.1 404 Not Found\r\nContent-Length: 7\r\n\r\nnothing", "HTTP 404 nothing"),
        ("HTTP/1.1 302 Found\r\nLocation: /x\r\nContent-Length: 0\r\n\r\n", "HTTP 302"),
        ("HTTP/1.1 500 Oops\r\n\r\nuntil the end", "HTTP 500 until the end"),
        ("HTTP/1.1 500 Oops\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n", "HTTP 500 abc"),
        ("220 mail.example ready\r\n", "is no HTTP"),
        ("HTTP/1.1 101 Switching", "closed the connection"),
        ("", "closed the connection"),
        (f"{SWITCHING}Sec-WebSocket-Accept: x\r\n\r\n", "does not belong to this request"),
        (SWITCHING.replace("websocket", "h2c") + "\r\n", "upgrades to 'h2c'"),
        (f"{SWITCHING}Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Protocol: z\r\n\r\n", "subprotocol 'z'"),
        (f"{SWITCHING}Sec-WebSocket-Accept: ACCEPT\r\nSec-WebSocket-Extensions: z\r\n\r\n", "an extension"),
    ],
)
async def test_an_answer_that_opens_no_websocket_is_named(answer, named):
    with saying(answer) as url:
        with pytest.raises(ServerUnreachable, match=named):
            GenericEnvClient(url).reset()
        with pytest.raises(ServerUnreachable, match=named):
            async with GenericEnvClient(url):
                pass


def test_a_server_that_requires_a_token_is_an_error_with_the_remedy():
    body = '{"message":"This server wants its token"}'
    answer = f"HTTP/1.1 401 Unauthorized\r\nContent-Length: {len(body)}\r\n\r\n{body}"
    with saying(answer) as url, pytest.raises(Unauthorized, match="wants its token"):
        GenericEnvClient(url).reset()


def test_a_header_of_two_lines_is_refused():
    with saying("") as url, pytest.raises(ValueError, match="line break"):
        GenericEnvClient(url, headers={"X-Name": "one\r\nX-Other: two"}).reset()


def test_callers_headers_and_names_in_the_url_are_sent():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        listening.settimeout(5)
        port = listening.getsockname()[1]
        env = GenericEnvClient(f"http://user:pass@127.0.0.1:{port}/x", headers={"host": "other"}, connect_timeout_s=0.2)
        with pytest.raises(ServerUnreachable):
            env.reset()
        connection, _ = listening.accept()
        with connection:
            asked = connection.recv(4096).decode()
    assert asked.startswith("GET /x/ws HTTP/1.1\r\n")
    assert "host: other\r\n" in asked
    assert "Host:" not in asked
    assert f"Authorization: Basic {base64.b64encode(b'user:pass').decode()}\r\n" in asked
