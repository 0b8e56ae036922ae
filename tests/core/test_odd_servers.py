"""What a server should not say, and may: it is read where Python's own JSON is, and else the one request fails."""

import asyncio
import math

import pytest
from websockets.asyncio.server import serve

from openenv.core.errors import EnvironmentFault
from openenv.core.generic_client import GenericEnvClient

GOOD = '{"type":"observation","data":{"observation":{"x":1},"reward":0.0,"done":false}}'
READABLE = {
    "not a number": ("NaN", math.isnan),
    "infinity": ("-Infinity", lambda x: x == -math.inf),
    "half a surrogate pair": ('"\\ud800"', lambda x: x == "\ud800"),
    "an integer beyond 64 bits": (str(10**30), lambda x: x == 10**30),
}
UNREADABLE = ["", "[1]", "null", "so far, so good", "[" * 100_000, '{"type":"observation"', "\x01 no array"]


@pytest.fixture
async def answering():
    """A server in the published dialect that gives these answers, one after the other."""
    servers = []

    async def start(*answers):
        left = list(answers)

        async def answer(connection):
            async for request in connection:
                if "close" in request:
                    return
                await connection.send(left.pop(0))

        server = await serve(answer, "127.0.0.1", 0)
        servers.append(server)
        return f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}"

    yield start
    for server in servers:
        server.close()
        await server.wait_closed()


def reset_synchronously(url, *, fails_first=False):
    with GenericEnvClient(url) as env:
        if fails_first:
            with pytest.raises(EnvironmentFault, match="is no JSON object"):
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
        with pytest.raises(EnvironmentFault, match="is no JSON object"):
            await env.reset()
        assert (await env.reset()).observation == {"x": 1}
    assert (await asyncio.to_thread(reset_synchronously, url, fails_first=True)).observation == {"x": 1}
