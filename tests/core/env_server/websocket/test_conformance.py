"""RFC 6455 at the server, in the order of Autobahn's sections: `/ws`, and an author's own endpoint over ASGI."""

import base64
import contextlib
import json
import socket
from contextlib import closing
from urllib.parse import urlsplit

import pytest
from fastapi import WebSocket, WebSocketDisconnect

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.net.frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT
from openenv.core.wire.constants import SUBPROTOCOL
from openenv.envs.echo_env.server.environment import EchoEnvironment
from tests.core.net.websocket_cases import NOT_UTF8, VALID_CODES, RawPeer, Received, Wire

pytestmark = pytest.mark.finding("the WebSocket conformance cases, at both ends")

CLIENT = Wire(masked=True)
frame, fragments = CLIENT.frame, CLIENT.fragments
LIMIT = 1 << 16
"""Of the server's messages; frames may be 2 * LIMIT + 1 MiB."""
FRAME_LIMIT = 2 * LIMIT + (1 << 20)
KEY = base64.b64encode(bytes(range(16))).decode()
STATE = b'{"type": "state"}'
END = frame(PING, b"the end of the case")
PATHS = ("/ws", "/echo")


@pytest.fixture(scope="module")
def url(module_serving):
    app = create_app(EchoEnvironment, config=ServerConfig(max_message_bytes=LIMIT))

    @app.websocket("/echo")
    async def echo(websocket: WebSocket):
        await websocket.accept()
        try:
            while True:
                message = await websocket.receive()
                if message.get("text") is not None:
                    await websocket.send_text(message["text"])
                elif message.get("bytes") is not None:
                    await websocket.send_bytes(message["bytes"])
                else:
                    return
        except WebSocketDisconnect:
            pass

    return module_serving(app)


def opened(url):
    where = urlsplit(url)
    return socket.create_connection((where.hostname, where.port), 10)


HEADERS = (
    ("Host", "localhost"), ("Upgrade", "websocket"), ("Connection", "Upgrade"), ("Sec-WebSocket-Key", KEY),
    ("Sec-WebSocket-Version", "13"),
)  # fmt: skip


def request(path="/ws", method="GET", version="HTTP/1.1", *, without=(), extra=(), **changed):
    """A handshake. without, changed: headers of HEADERS, by their last words. extra: lines after them."""
    lines = [f"{method} {path} {version}"]
    for name, value in HEADERS:
        word = name.rpartition("-")[2].lower()
        if word not in without:
            lines.append(f"{name}: {changed.get(word, value)}")
    return "\r\n".join([*lines, *extra, "", ""]).encode("latin-1")


def head_of(connection):
    """The head of the server's response, and what follows it; empty: it closed the connection."""
    received = b""
    while b"\r\n\r\n" not in received:
        try:
            data = connection.recv(65_536)
        except ConnectionResetError:
            data = b""
        if not data:
            return received, b""
        received += data
    head, _, rest = received.partition(b"\r\n\r\n")
    return head, rest


@pytest.fixture
def peer(url):
    """A client on `/ws` or `/echo`, after its handshake."""
    with closing(opened(url)) as connection:

        def connect(path):
            connection.sendall(request(path))
            head, rest = head_of(connection)
            assert head.startswith(b"HTTP/1.1 101 ")
            return RawPeer(connection, rest)

        yield connect


def answers(peer, path, data, messages=(), pongs=(), chop=0):
    """Send a case and assert what comes back, that nothing more does, and that the connection lives.

    messages: opcode and payload of those that are in `data`. pongs: payloads.
    """
    connected = peer(path)
    connected.send(data, chop)
    wanted = [Received(PONG, payload) for payload in pongs]
    if path == "/echo":
        wanted += [Received(opcode, payload) for opcode, payload in messages]
        received = connected.until(wanted)
    else:
        received = [connected.receive() for _ in range(len(messages) + len(pongs))]
        assert [each for each in received if each.opcode == PONG] == wanted
        types = [json.loads(each.payload)["type"] for each in received if each.opcode == TEXT]
        states = [opcode == TEXT and payload.strip() == STATE for opcode, payload in messages]
        assert types == ["state" if is_state else "error" for is_state in states]
    connected.send(END)
    assert len(received) == len(messages) + len(pongs)
    assert connected.receive() == Received(PONG, b"the end of the case")


# 1 Messages of any size.


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("chop", [0, 997])
@pytest.mark.parametrize("size", [0, 17, 125, 126, 127, 65_535, 65_536])
def test_a_text_of_any_size_is_answered(peer, path, size, chop):
    payload = STATE.ljust(size) if size else b""
    answers(peer, path, frame(TEXT, payload), [(TEXT, payload)], chop=chop)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("size", [0, 125, 126, 65_535, 65_536])
def test_a_binary_message_of_any_size_is_answered(peer, path, size):
    answers(peer, path, frame(BINARY, b"\xfe" * size), [(BINARY, b"\xfe" * size)])


# 2 Pings and pongs.


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("chop", [0, 1])
@pytest.mark.parametrize(
    "payloads", [[b""], [b"hello"], [b"\x00\xff\xfe"], [b"p" * 125], [b"%d" % number for number in range(10)]]
)
def test_a_ping_is_answered_with_its_payload(peer, path, payloads, chop):
    answers(peer, path, b"".join(frame(PING, payload) for payload in payloads), pongs=payloads, chop=chop)


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("payload", [b"", b"unasked"])
def test_a_pong_is_answered_with_nothing(peer, path, payload):
    answers(peer, path, frame(PONG, payload))


# 5 Fragments.

PARTS = (b'{"type"', b': "sta', b'te"}')
EURO = '{"type": "€"}'.encode()


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("chop", [0, 1])
@pytest.mark.parametrize(
    "parts",
    [(PARTS[0], b"".join(PARTS[1:])), PARTS, (b"", *PARTS), (*PARTS, b""), (b"", b"", b""), (b"",) * 999 + (b"a",)],
    ids=["two", "three", "the first empty", "the last empty", "all empty", "a thousand"],
)
def test_fragments_are_one_message(peer, path, parts, chop):
    if len(parts) > 10 and chop:
        chop = 997
    answers(peer, path, fragments(TEXT, *parts), [(TEXT, b"".join(parts))], chop=chop)


@pytest.mark.parametrize("path", PATHS)
def test_control_frames_between_fragments_are_answered_at_once(peer, path):
    data = fragments(TEXT, *PARTS, between=frame(PING, b"between") + frame(PONG))
    answers(peer, path, data, [(TEXT, b"".join(PARTS))], [b"between"] * 2)


@pytest.mark.parametrize("path", PATHS)
def test_fragmented_messages_follow_one_another(peer, path):
    data = fragments(TEXT, *PARTS) + fragments(BINARY, b"1", b"2") + frame(TEXT, STATE)
    answers(peer, path, data, [(TEXT, b"".join(PARTS)), (BINARY, b"12"), (TEXT, STATE)])


# 6 UTF-8.


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("chop", [0, 1])
@pytest.mark.parametrize(
    "parts",
    [
        (EURO,),
        (EURO[:11], EURO[11:]),
        (EURO[:10], EURO[10:11], EURO[11:]),
        ("\ufffe\U0010ffff".encode(),),
        (b"\0{\0}",),
    ],
    ids=["whole", "a character in two fragments", "in three", "code points at the limits", "UTF-16 without its mark"],
)
def test_text_in_utf8_is_answered(peer, path, parts, chop):
    answers(peer, path, fragments(TEXT, *parts), [(TEXT, b"".join(parts))], chop=chop)


# What fails a connection: sections 2 to 7, masks, lengths and sizes.


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("size", [2, 8])
def test_a_length_in_more_bytes_than_it_needs_is_read(peer, path, size):
    answers(peer, path, frame(TEXT, STATE, size=size), [(TEXT, STATE)])


TOO_LONG = {
    "a length of 2^62": (frame(TEXT, b"", length=1 << 62, size=8), (1009,)),
    "a length with its high bit": (frame(TEXT, b"", length=(1 << 63) + 1, size=8), (1002, 1009)),
    "a frame above the limit": (frame(TEXT, b"", length=FRAME_LIMIT + 1), (1009,)),
    "fragments above the limit": (
        frame(BINARY, bytes(FRAME_LIMIT // 2), final=False) + frame(CONTINUATION, b"", length=FRAME_LIMIT),
        (1009,),
    ),
}
BROKEN = {
    name: (data, (code,)) for name, (data, code) in (CLIENT.broken() | CLIENT.bad_text() | CLIENT.bad_close()).items()
} | TOO_LONG


@pytest.mark.finding("frames follow RFC 6455")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("name", BROKEN)
def test_what_breaks_the_protocol_is_answered_with_its_code_and_nothing_after_it(peer, path, name):
    data, codes = BROKEN[name]
    connected = peer(path)
    connected.send(data + frame(PING, b"after it"))

    *before, last = connected.until_closed()
    assert (last.opcode, last.code in codes) == (CLOSE, True)
    assert before in ([], [Received(PONG, b"after it")] if path == "/echo" else [])  # there it may be the first


@pytest.mark.parametrize("path", PATHS)
def test_what_came_before_a_broken_frame_is_answered(peer, path):
    connected = peer(path)
    connected.send(frame(PING, b"before") + frame(3))

    first, last = connected.until_closed()
    assert (first, last.code) == (Received(PONG, b"before"), 1002)


@pytest.mark.finding("fragments of a message cost no more than the message")
def test_a_message_in_more_than_a_thousand_fragments_is_refused(peer):
    connected = peer("/ws")
    connected.send(frame(TEXT, b"a", final=False) + frame(CONTINUATION, b"", final=False) * 1000)

    (last,) = connected.until_closed()
    assert last.code == 1009


# 7 Closing.


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("code", VALID_CODES)
def test_a_valid_close_code_is_confirmed(peer, path, code):
    connected = peer(path)
    connected.send(CLIENT.close(code, "an end: €".encode()))

    (last,) = connected.until_closed()
    assert last.code == code


@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("payload", [b"", b"\x03\xe8" + b"r" * 123], ids=["no payload", "the longest reason"])
def test_a_close_frame_is_confirmed(peer, path, payload):
    connected = peer(path)
    connected.send(frame(CLOSE, payload))

    (last,) = connected.until_closed()
    assert last.code in ((1000, 0) if payload == b"" else (1000,))


@pytest.mark.finding("frames follow RFC 6455")
@pytest.mark.parametrize("path", PATHS)
@pytest.mark.parametrize("apart", [False, True])
@pytest.mark.parametrize(
    "after",
    [frame(PING, b"p"), frame(TEXT, STATE), CLIENT.close(1000), frame(TEXT, NOT_UTF8["a surrogate"]), b"\xff" * 100],
    ids=["a ping", "a text", "a second close frame", "an invalid text", "no frame"],
)
def test_what_follows_a_close_frame_is_not_answered(peer, path, after, apart):
    connected = peer(path)
    connected.send(CLIENT.close(1000) + (b"" if apart else after))
    if apart:
        with contextlib.suppress(ConnectionError):  # the server has closed it already
            connected.send(after)

    (last,) = connected.until_closed()
    assert last.code == 1000


@pytest.mark.parametrize("path", PATHS)
def test_a_message_right_before_the_close_frame_is_answered_first(peer, path):
    connected = peer(path)
    connected.send(frame(PING, b"first") + CLIENT.close(1001))

    first, last = connected.until_closed()
    assert (first, last.code) == (Received(PONG, b"first"), 1001)


@pytest.mark.parametrize("path", PATHS)
def test_a_close_frame_within_fragments_closes(peer, path):
    connected = peer(path)
    connected.send(frame(TEXT, b"half", final=False) + CLIENT.close(1000))

    (last,) = connected.until_closed()
    assert last.code in ((1000,) if path == "/ws" else (1000, 1002))


# The handshake.

LONG = "a" * 9000
HANDSHAKES = {
    "as it should be": (request(), 101),
    "an upgrade in capitals": (request(upgrade="WebSocket", connection="UPGRADE"), 101),
    "a connection of two words": (request(connection="keep-alive, Upgrade"), 101),
    "a query": (request("/ws?a=b&a"), 101),
    "a URL as target": (request("http://localhost/ws"), 101),
    "a URL with port and query as target": (request("http://localhost:80/ws?a=b"), 101),
    "a URL without a path": (request("http://localhost"), 403),
    "an escaped path": (request("/%77s"), 101),
    "an address as host": (request(host="127.0.0.1"), 101),
    "an unknown subprotocol": (request(extra=["Sec-WebSocket-Protocol: chat"]), 101),
    "a subprotocol of ours": (request(extra=[f"Sec-WebSocket-Protocol: chat, {SUBPROTOCOL}"]), 101),
    "an extension": (request(extra=["Sec-WebSocket-Extensions: permessage-deflate; client_max_window_bits"]), 101),
    "an own origin": (request(extra=["Origin: http://localhost"]), 101),
    "a cookie": (request(extra=["Cookie: a=b"]), 101),
    "60 headers": (request(extra=[f"X-{number}: a" for number in range(60)]), 101),
    "HTTP/1.0": (request(version="HTTP/1.0"), 400),
    "HTTP/0.9": (request(version="HTTP/0.9"), 400),
    "HTTP/2.0": (request(version="HTTP/2.0"), 400),
    "no HTTP": (request(version="ICY/1.1"), 400),
    "no host": (request(without=["host"]), 400),
    "two hosts": (request(extra=["Host: localhost"]), 400),
    "no key": (request(without=["key"]), 400),
    "two keys": (request(extra=[f"Sec-WebSocket-Key: {KEY}"]), 400),
    "an empty key": (request(key=""), 400),
    "a key of 15 bytes": (request(key=base64.b64encode(bytes(15)).decode()), 400),
    "a key of 17 bytes": (request(key=base64.b64encode(bytes(17)).decode()), 400),
    "a key that is no base64": (request(key="not base64!"), 400),
    "no version": (request(without=["version"]), 426),
    "version 8": (request().replace(b"Version: 13", b"Version: 8"), 426),
    "version 14": (request().replace(b"Version: 13", b"Version: 14"), 426),
    "two versions in a line": (request().replace(b"Version: 13", b"Version: 13, 8"), 426),
    "two versions in two lines": (request(extra=["Sec-WebSocket-Version: 8"]), 426),
    "a POST": (request(method="POST"), 405),
    "a method in small letters": (request(method="get"), 400),
    "a path of nothing": (request("/nowhere"), 403),
    "a target that is neither path nor URL": (request("ws"), 400),
    "a foreign origin": (request(extra=["Origin: http://evil.example"]), 403),
    "no upgrade": (request(without=["upgrade"]), 404),
    "no connection": (request(without=["connection"]), 404),
    "a folded header": (request(extra=["X: a", " b"]), 400),
    "a header with a NUL": (request(extra=["X: a\0b"]), 400),
    "a header with a bare CR": (request(extra=["X: a\rb"]), 400),
    "a header without a name": (request(extra=[": a"]), 400),
    "a header with a space before its colon": (request(extra=["X : a"]), 400),
    "a header of 9,000 bytes": (request(extra=[f"X: {LONG}"]), 431),
    "a target of 9,000 bytes": (request(f"/ws?{LONG}"), 431),
    "129 headers": (request(extra=[f"X-{number}: a" for number in range(124)]), 431),
    "a key header of 9,000 bytes": (request(key=LONG), 431),
}


@pytest.mark.finding("handshakes follow RFC 6455: HTTP/1.1, one Host, one key")
@pytest.mark.parametrize("chop", [0, 61])
@pytest.mark.parametrize("name", HANDSHAKES)
def test_a_handshake_gets_its_status(url, name, chop):
    data, status = HANDSHAKES[name]
    with closing(opened(url)) as connection:
        RawPeer(connection).send(data, chop)
        head, _ = head_of(connection)

    assert head.startswith(b"HTTP/1.1 %d " % status), head
    assert b"sec-websocket-extensions" not in head.lower()
    chosen = SUBPROTOCOL if name == "a subprotocol of ours" else ""
    assert (f"sec-websocket-protocol: {SUBPROTOCOL}".encode() in head.lower()) is bool(chosen)


@pytest.mark.finding("handshakes follow RFC 6455: HTTP/1.1, one Host, one key")
def test_an_upgrade_behind_an_unfinished_request_ends_the_connection(url):
    first = b"POST /reset HTTP/1.1\r\nHost: localhost\r\nContent-Length: 2\r\n\r\n{}"
    with closing(opened(url)) as connection:
        connection.sendall(first + request())
        received = b""
        with contextlib.suppress(ConnectionResetError):
            while data := connection.recv(4096):
                received += data

    assert b"HTTP/1.1 101 " not in received


def test_an_upgrade_behind_a_finished_request_is_answered(url):
    with closing(opened(url)) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n")
        assert head_of(connection)[0].startswith(b"HTTP/1.1 200 ")
        connection.sendall(request())

        assert head_of(connection)[0].startswith(b"HTTP/1.1 101 ")
