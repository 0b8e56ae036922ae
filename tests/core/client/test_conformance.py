"""RFC 6455 at both clients, and what a server may say before it names the session: each ends in an answer or an error.

A server on plain sockets sends the bytes of a case; the path of a client's URL names the case.
"""

import asyncio
import contextlib
import socket
import threading
from collections.abc import Callable
from typing import NamedTuple
from urllib.parse import quote, unquote

import pytest

from openenv.core.errors import CapacityReached, OpenEnvError, ServerUnreachable, SessionLost
from openenv.core.generic_client import GenericEnvClient
from openenv.core.net.frames import BINARY, CLOSE, CONTINUATION, PING, PONG, TEXT
from openenv.core.net.handshake import accept_key
from openenv.core.wire.constants import SUBPROTOCOL
from tests.core.net.websocket_cases import VALID_CODES, RawPeer, Received, Wire

SERVER = Wire(masked=False)
frame, fragments = SERVER.frame, SERVER.fragments
TIMEOUT_S = 10.0
OBSERVATION = '{"type":"observation","data":{"observation":{"text":"%s"},"reward":0.0,"done":false}}'
EURO = (OBSERVATION % "€").encode()
SPLIT = EURO.index("€".encode()) + 1


def answer(size=0):
    """An observation of that many bytes, or a little more."""
    return (OBSERVATION % ("x" * (size - len(OBSERVATION) + 2))).encode()


class Case(NamedTuple):
    """What the server sends, and what becomes of the client's request."""

    sent: bytes
    error: type[OpenEnvError] | None = None
    code: int | None = None
    """Of the client's close frame, where the server broke the protocol."""
    pongs: tuple[bytes, ...] = ()
    chop: int = 0


TEXT_FRAME = frame(TEXT, answer())
GOOD = {
    **{f"a text of {size} bytes": Case(frame(TEXT, answer(size))) for size in (0, 125, 126, 127, 65_535, 65_536)},
    "a text byte by byte": Case(TEXT_FRAME, chop=1),
    "a long text in pieces": Case(frame(TEXT, answer(65_536)), chop=997),
    "a length in more bytes than it needs": Case(frame(TEXT, answer(), size=8)),
    "a text after a ping": Case(frame(PING, b"p") + TEXT_FRAME, pongs=(b"p",)),
    "a text after an empty ping": Case(frame(PING) + TEXT_FRAME, pongs=(b"",)),
    "a text after a ping of 125 bytes": Case(frame(PING, b"p" * 125) + TEXT_FRAME, pongs=(b"p" * 125,)),
    "a text after ten pings": Case(
        b"".join(frame(PING, b"%d" % number) for number in range(10)) + TEXT_FRAME,
        pongs=tuple(b"%d" % number for number in range(10)),
    ),
    "a text after a pong": Case(frame(PONG, b"unasked") + TEXT_FRAME),
    "two fragments": Case(fragments(TEXT, answer()[:9], answer()[9:])),
    "fragments, one empty": Case(fragments(TEXT, answer()[:9], b"", answer()[9:])),
    "fragments with pings between": Case(
        fragments(TEXT, answer()[:9], answer()[9:20], answer()[20:], between=frame(PING, b"b")), pongs=(b"b", b"b")
    ),
    "a character in two fragments": Case(fragments(TEXT, EURO[:SPLIT], EURO[SPLIT:])),
    "a character byte by byte": Case(frame(TEXT, EURO), chop=1),
}
BROKEN = {
    name: Case(sent, SessionLost, code)
    for name, (sent, code) in (SERVER.broken() | SERVER.bad_text() | SERVER.bad_close()).items()
} | {
    "a thousand and one fragments": Case(
        frame(TEXT, b"a", final=False) + frame(CONTINUATION, b"", final=False) * 1000, SessionLost, 1009
    ),
}
CLOSED = {f"a close frame with code {code}": Case(SERVER.close(code), SessionLost) for code in VALID_CODES} | {
    "a close frame without a code": Case(frame(CLOSE), SessionLost),
    "an answer behind a close frame": Case(SERVER.close(1000) + TEXT_FRAME, SessionLost),
    "a ping behind a close frame": Case(SERVER.close(1000) + frame(PING, b"late"), SessionLost),
    "half a frame": Case(TEXT_FRAME[:20], SessionLost),
    "nothing": Case(b"", SessionLost),
}
CASES = GOOD | BROKEN | CLOSED

QUEUED = b'{"type":"queued","data":{"position":1,"wait_s":%s}}'
HELLO = b'{"type":"session","data":{"session_id":"s","grace_s":60}}'
HELLOS = {
    **{
        f"hello {number}": Case(frame(TEXT, first), ServerUnreachable)
        for number, first in enumerate((
            b"", b"so far, so good", b"[1]", b"null", b"3", b'"session"', b"{}", b'{"type":"session"',
            b'{"type":"session"}', b'{"type":"session","data":[1]}', b'{"type":"session","data":{}}',
            b'{"type":"session","data":{"session_id":"s"}}', b'{"type":"session","data":{"session_id":7,"grace_s":1}}',
            b'{"type":"session","data":{"session_id":"","grace_s":1}}',
            b'{"type":"session","data":{"session_id":"s","grace_s":"1"}}',
            b'{"type":"session","data":{"session_id":"s","grace_s":-1}}',
            b'{"type":"session","data":{"session_id":"s","grace_s":NaN}}',
            b'{"type":"session","data":{"session_id":"s","grace_s":true}}',
            b'{"type":"observation","data":{}}', b'{"type":["session"],"data":{}}', b'{"type":"error","data":"oops"}',
            b'{"type":"queued","data":{}}', b'{"type":"queued"}',
            *(QUEUED % wait for wait in (b"1e9", b"-1", b"null", b'"1"', b"NaN", b"Infinity", b"[1]", b"true")),
        ))
    },
    "bytes that are no message": Case(frame(BINARY, b"\xfe\xff"), ServerUnreachable),
    "an array that is cut short": Case(frame(BINARY, b"\x01\0\0\0\xff\xff\xff\xff"), ServerUnreachable),
    "an error of the server": Case(
        frame(TEXT, b'{"type":"error","data":{"code":"CAPACITY_REACHED","message":"full"}}'), CapacityReached
    ),
    "the session after a queue": Case(frame(TEXT, QUEUED % b"0.5") + frame(TEXT, HELLO)),
}  # fmt: skip


@pytest.fixture(scope="module")
def served():
    """Base URL of the server, and the frames that its clients sent by case, each when its connection has ended."""
    frames: dict[str, list[Received]] = {}
    has_ended = {name: threading.Event() for name in (*CASES, *HELLOS)}

    def serve(connection):
        with connection, contextlib.suppress(OSError):
            request = b""
            while b"\r\n\r\n" not in request:
                request += connection.recv(4096)
            name = unquote(request.split(b" ")[1].decode()).strip("/").removesuffix("/ws")
            key = request.partition(b"Sec-WebSocket-Key: ")[2].partition(b"\r\n")[0]
            chosen = f"Sec-WebSocket-Protocol: {SUBPROTOCOL}\r\n" if name in HELLOS else ""
            head = f"HTTP/1.1 101 OK\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n{chosen}"
            connection.sendall(f"{head}Sec-WebSocket-Accept: {accept_key(key)}\r\n\r\n".encode())
            _play(name, RawPeer(connection), connection, frames)
            has_ended[name].set()

    def accept():
        while True:
            try:
                connection, _ = listening.accept()
            except OSError:
                return
            threading.Thread(target=serve, args=(connection,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0), backlog=200) as listening:
        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listening.getsockname()[1]}", frames, has_ended
        listening.shutdown(socket.SHUT_RDWR)


def _play(name: str, peer: RawPeer, connection: socket.socket, frames: dict[str, list[Received]]) -> None:
    """The server's side of a case: answer the first request, or speak first, and read to the end."""
    case = (CASES | HELLOS)[name]
    if name in CASES:
        peer.receive()  # the reset
    peer.send(case.sent, case.chop)
    if name in ("half a frame", "nothing"):
        connection.shutdown(socket.SHUT_WR)
    if name == "the session after a queue":
        reset = peer.receive()
        request_id = reset.payload.partition(b'"id":"')[2].partition(b'"')[0]
        peer.send(frame(TEXT, answer().replace(b'"type"', b'"id":"%b","type"' % request_id, 1)))
    received: list[Received] = []
    while (sent := peer.receive()) is not None:
        received.append(sent)
        if sent.opcode == CLOSE or b'"type":"close"' in sent.payload:
            connection.shutdown(socket.SHUT_WR)
    frames[name] = received


def play_synchronously(url):
    with GenericEnvClient(url, connect_timeout_s=TIMEOUT_S, message_timeout_s=TIMEOUT_S) as env:
        return env.reset()


def play_asynchronously(url):
    async def play():
        async with GenericEnvClient(url, connect_timeout_s=TIMEOUT_S, message_timeout_s=TIMEOUT_S) as env:
            return await env.reset()

    return asyncio.run(play())


PLAYS = pytest.mark.parametrize("play", [play_synchronously, play_asynchronously], ids=["sync", "async"])


@pytest.fixture
def run(served):
    """Play a case: its error if it has one, and the frames that the client sent after its first request."""
    base_url, frames, has_ended = served

    def run(name: str, case: Case, play: Callable[[str], object]):
        has_ended[name].clear()
        frames.pop(name, None)
        with contextlib.ExitStack() as stack:
            if case.error is not None:
                stack.enter_context(pytest.raises(case.error))
            play(f"{base_url}/{quote(name)}")
        assert has_ended[name].wait(TIMEOUT_S), "the client did not close its connection"
        return frames[name]

    return run


@pytest.mark.finding("the WebSocket conformance cases, at both ends")
@PLAYS
@pytest.mark.parametrize("name", GOOD)
def test_a_right_answer_is_read_and_pings_are_answered(run, name, play):
    case = GOOD[name]
    sent = run(name, case, play)

    assert [each.payload for each in sent if each.opcode == PONG] == list(case.pongs)
    assert [each.code for each in sent if each.opcode == CLOSE] in ([1000], [])


@pytest.mark.finding("the WebSocket conformance cases, at both ends", "frames follow RFC 6455")
@PLAYS
@pytest.mark.parametrize("name", BROKEN)
def test_a_server_that_breaks_the_protocol_loses_its_client_with_the_code(run, name, play):
    sent = run(name, BROKEN[name], play)

    assert [each.code for each in sent] == [BROKEN[name].code]


@pytest.mark.finding("the WebSocket conformance cases, at both ends", "frames follow RFC 6455")
@PLAYS
@pytest.mark.parametrize("name", CLOSED)
def test_a_server_that_closes_ends_the_session_and_is_sent_nothing_but_a_close_frame(run, name, play):
    sent = run(name, CLOSED[name], play)

    assert [each.opcode for each in sent] in ([CLOSE], [])


@pytest.mark.finding("a first frame that is no session is a ServerUnreachable, and no queue is endless")
@PLAYS
@pytest.mark.parametrize("name", HELLOS, ids=[str(case.sent[2:60]) for case in HELLOS.values()])
def test_a_first_message_that_is_no_session_is_named_at_once(run, name, play):
    run(name, HELLOS[name], play)
