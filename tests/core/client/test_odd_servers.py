"""Odd answers of a server: JSON that Python reads is read, and any other answer fails its own request."""

import asyncio
import contextlib
import json
import math
import socket
import time

import pytest
from websockets.asyncio.server import serve

from openenv.core.errors import AnswerTimeout, EnvironmentFault, MessageTooBig, ServerUnreachable, SessionLost
from openenv.core.generic_client import GenericEnvClient
from openenv.core.http_env_client import HTTPEnvClient
from openenv.core.wire.constants import MAX_IN_FLIGHT, SUBPROTOCOL

GOOD = '{"type":"observation","data":{"observation":{"x":1},"reward":0.0,"done":false}}'
READABLE = {
    "not a number": ("NaN", math.isnan),
    "infinity": ("-Infinity", lambda x: x == -math.inf),
    "half a surrogate pair": ('"\\ud800"', lambda x: x == "\ud800"),
    "an integer of 64 bits": (str(2**63 - 1), lambda x: x == 2**63 - 1),
}
UNREADABLE = [
    "", "[1]", "null", "so far, so good", "[" * 100_000, '{"type":"observation"', "\x01 no array",
    '{"type":"observation","data":[1]}', '{"type":"error","data":"oops"}', '{"type":"observation","id":[1],"data":{}}',
    '{"type":"observation","data":{}}', '{"type":"observation","data":{"observation":3}}',
]  # fmt: skip


@pytest.fixture
async def answering():
    """A server that gives these answers, one after the other; those of a pair after that many seconds. None: it breaks
    the connection instead. In the published dialect, unless it is given subprotocols."""
    servers = []

    async def start(*answers, subprotocols=None):
        start.left = left = list(answers)

        async def answer(connection):
            if connection.subprotocol:
                await connection.send('{"type":"session","data":{"session_id":"s","grace_s":60}}')
            async for request in connection:
                asked = json.loads(request)
                if asked["type"] == "close":
                    return
                pause_s, reply = left.pop(0) if isinstance(left[0], tuple) else (0, left.pop(0))
                await asyncio.sleep(pause_s)
                if reply is None:
                    connection.transport.abort()
                    return
                await connection.send(reply.replace('"id":"?"', f'"id":"{asked.get("id")}"'))

        server = await serve(answer, "127.0.0.1", 0, subprotocols=subprotocols)
        servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


def reset_synchronously(url, *, fails_first=False, **settings):
    with GenericEnvClient(url, **settings) as env:
        if fails_first:
            with pytest.raises(EnvironmentFault, match=r"the server's answer (is no JSON object|has no observation)"):
                env.reset()
        return env.reset()


@pytest.mark.parametrize("name", READABLE)
async def test_what_the_standard_library_reads_is_read(answering, name):
    written, is_right = READABLE[name]
    url = await answering(*[GOOD.replace('"x":1', f'"x":{written}')] * 2)
    async with GenericEnvClient(url) as env:
        assert is_right((await env.reset()).observation["x"])
    assert is_right((await asyncio.to_thread(reset_synchronously, url)).observation["x"])


@pytest.mark.parametrize("odd", UNREADABLE, ids=lambda odd: odd[:20])
async def test_an_answer_that_is_no_object_fails_its_request_and_the_session_goes_on(answering, odd):
    url = await answering(odd, GOOD, odd, GOOD)
    async with GenericEnvClient(url) as env:
        with pytest.raises(EnvironmentFault, match=r"the server's answer (is no JSON object|has no observation)"):
            await env.reset()
        assert (await env.reset()).observation == {"x": 1}
    assert (await asyncio.to_thread(reset_synchronously, url, fails_first=True)).observation == {"x": 1}


async def test_an_unreadable_answer_that_is_late_is_dropped_as_any_other(answering):
    with_id = GOOD.replace('"type"', '"id":"?","type"')
    url = await answering((0.4, "so far, so good"), with_id, subprotocols=[SUBPROTOCOL])
    async with GenericEnvClient(url, message_timeout_s=0.2) as env:
        with pytest.raises(AnswerTimeout):
            await env.reset()
        await asyncio.sleep(0.4)
        assert (await env.reset()).observation == {"x": 1}


async def test_a_server_that_breaks_every_connection_is_asked_until_the_time_is_up_and_not_without_a_pause(answering):
    answers = [None] * 1000
    url = await answering(*answers, subprotocols=[SUBPROTOCOL])
    began = time.monotonic()
    with pytest.raises(AnswerTimeout):
        await asyncio.to_thread(reset_synchronously, url, message_timeout_s=1.0)
    async with GenericEnvClient(url, message_timeout_s=1.0) as env:
        with pytest.raises(AnswerTimeout):
            await env.reset()
    assert time.monotonic() - began < 10
    assert 2 < len(answers) - len(answering.left) < 100


async def test_a_request_under_way_fails_when_its_client_is_closed(answering):
    url = await answering((1, GOOD))
    env = await GenericEnvClient(url)
    waiting = asyncio.create_task(env.reset())
    await asyncio.sleep(0)
    await env.close()
    with pytest.raises(SessionLost, match="the session was closed"):
        await waiting


async def test_no_more_requests_are_under_way_than_the_server_records():
    too_many = []

    async def answer(connection):
        await connection.send('{"type":"session","data":{"session_id":"s","grace_s":60}}')
        requests = [json.loads(await connection.recv()) for _ in range(MAX_IN_FLIGHT)]
        with contextlib.suppress(TimeoutError):
            too_many.append(json.loads(await asyncio.wait_for(connection.recv(), 0.2)))
        requests += too_many
        for request in requests:
            await connection.send(GOOD.replace('"type"', f'"id":"{request["id"]}","type"'))
        async for message in connection:
            request = json.loads(message)
            if request["type"] == "close":
                return
            await connection.send(GOOD.replace('"type"', f'"id":"{request["id"]}","type"'))

    server = await serve(answer, "127.0.0.1", 0, subprotocols=[SUBPROTOCOL])
    async with server, GenericEnvClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as env:
        results = await asyncio.gather(*(env.step({}) for _ in range(MAX_IN_FLIGHT + 5)))

    assert len(results) == MAX_IN_FLIGHT + 5
    assert too_many == []


@pytest.mark.parametrize("is_async", [False, True])
def test_a_server_that_does_not_complete_the_handshake_is_unreachable_and_the_limit_is_named(is_async):
    with socket.create_server(("127.0.0.1", 0)) as silent:
        env = GenericEnvClient(f"http://127.0.0.1:{silent.getsockname()[1]}", connect_timeout_s=0.2)
        with pytest.raises(ServerUnreachable, match=r"opened in 0\.2 s.*raise connect_timeout_s"):
            asyncio.run(env.__aenter__()) if is_async else env.connect()


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize("what", ["pings", "a frame without an end", "a handshake without an end"])
@pytest.mark.finding("deadlines hold while bytes arrive, and responses have a size")
def test_a_deadline_holds_while_bytes_arrive(pouring, what, is_async):
    switch = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    accepted = switch + b"Sec-WebSocket-Accept: %s\r\n\r\n"
    poured = {
        "pings": (accepted, b"\x89\x00" * 16384),
        "a frame without an end": (accepted + b"\x81\x7f" + (1 << 26).to_bytes(8, "big"), b"x"),
        "a handshake without an end": (switch, b"x"),
    }
    env = GenericEnvClient(pouring(*poured[what]), connect_timeout_s=0.5, message_timeout_s=0.5)

    async def reset():
        async with env:
            await env.reset()

    started = time.monotonic()
    with pytest.raises((AnswerTimeout, ServerUnreachable)):
        asyncio.run(reset()) if is_async else env.reset()
    assert time.monotonic() - started < 15


def test_a_deadline_holds_while_the_server_takes_a_large_request_slowly(pouring):
    accepted = b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    url = pouring(accepted + b"Sec-WebSocket-Accept: %s\r\n\r\n", b"", pause_s=0.1)
    env = GenericEnvClient(url, message_timeout_s=0.5)

    started = time.monotonic()
    with pytest.raises((AnswerTimeout, SessionLost)):
        env.step({"text": "x" * (32 << 20)})
    assert time.monotonic() - started < 5


@pytest.mark.parametrize("is_async", [False, True])
@pytest.mark.parametrize(("chunk", "pause_s", "error"), [(b"x", 0.02, AnswerTimeout), (b"x" * 65536, 0, MessageTooBig)])
def test_a_response_over_http_has_limits_of_time_and_size(pouring, chunk, pause_s, error, is_async):
    url = pouring(b"HTTP/1.1 200 OK\r\n\r\n", chunk, pause_s=pause_s)
    env = HTTPEnvClient(url, message_timeout_s=0.5 if pause_s else 20, max_message_size_mb=1)

    async def reset():
        async with env:
            await env.reset()

    started = time.monotonic()
    with pytest.raises(error):
        asyncio.run(reset()) if is_async else env.reset()
    assert time.monotonic() - started < 10
