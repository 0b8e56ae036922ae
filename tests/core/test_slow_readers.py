"""A client that asks and does not read is neither answered nor read from any more, wherever the environment runs."""

import asyncio

import pytest
from websockets.asyncio.client import connect

from openenv.core.env_server import create_app
from openenv.core.env_server.direct_connection import DirectConnection
from openenv.core.errors import SessionLost
from openenv.core.generic_client import GenericEnvClient
from tests.core.counting_env import CountingEnvironment, CountObservation

STEP = '{"type":"step","data":{"amount":0}}'
ASKED = 3000


class Big(CountingEnvironment):
    """Answers with 50 kB."""

    def step(self, action, **kwargs):
        super().step(action, **kwargs)
        return CountObservation(total=0, payload="x" * 50_000)


class InlineBig(Big):
    """The same, in the event loop."""

    execution = "inline"


class ProcessBig(Big):
    """The same, in a process of its own."""

    execution = "process"


@pytest.mark.parametrize("environment", [InlineBig, Big, ProcessBig])
async def test_what_waits_for_it_is_bounded_and_it_gets_everything_when_it_reads(serving, environment, monkeypatch):
    connections = []
    begin = DirectConnection.answer_with

    def noting(self, answers):
        connections.append(self)
        return begin(self, answers)

    monkeypatch.setattr(DirectConnection, "answer_with", noting)
    url = serving(create_app(environment)).replace("http", "ws") + "/ws"
    async with connect(url, compression=None, max_queue=1, write_limit=1 << 30) as connection:
        await connection.send('{"type":"reset"}')
        await asyncio.wait_for(connection.recv(), 60)
        asking = asyncio.create_task(_ask(connection))
        await asyncio.sleep(1.5)
        assert connections[0]._transport.get_write_buffer_size() < 1 << 20
        for _ in range(ASKED):
            answer = await asyncio.wait_for(connection.recv(), 30)
        await asking
    assert answer.startswith('{"type":"observation"')


async def _ask(connection):
    for _ in range(ASKED):
        await connection.send(STEP)


async def test_a_request_under_way_hears_that_its_client_was_closed(serving):
    """In the published dialect, which knows no ids."""

    class Published(GenericEnvClient):
        pass

    async with Published(serving(create_app(CountingEnvironment))) as env:
        await env.reset()
        env._async._extended = False
        waiting = asyncio.ensure_future(env.step({"amount": 1, "mischief": "sleep"}))
        await asyncio.sleep(0.05)
        session = env._async
    with pytest.raises(SessionLost):
        await asyncio.wait_for(waiting, 5)
    with pytest.raises(SessionLost):
        session._send(None, b"{}", asyncio.get_running_loop().create_future())
