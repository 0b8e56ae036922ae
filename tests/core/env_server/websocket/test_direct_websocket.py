"""Backpressure and direct replies of a WebSocket connection."""

import asyncio
import re
from typing import ClassVar

import httpx
import pytest
from websockets.asyncio.client import connect

from openenv.core.env_server import create_app
from openenv.core.env_server.websocket.direct_websocket import DirectWebSocket
from openenv.core.env_server.websocket.message_handler import PendingReply
from openenv.core.net.frames import TEXT, client_frame
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.envs.echo_env.server.environment import EchoEnvironment
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from tests.core.counting_env import CountingEnvironment, CountObservation

STEP = '{"type":"step","data":{"amount":0}}'
NUM_STEPS = 3000


class Big(CountingEnvironment):
    """Observations of 50 kB."""

    def step(self, action, **kwargs):
        super().step(action, **kwargs)
        return CountObservation(total=0, payload="x" * 50_000)


class InlineBig(Big):
    """The same, in the event loop."""

    execution = "inline"


class ProcessBig(Big):
    """The same, in a process of its own."""

    execution = "process"


@pytest.mark.process
@pytest.mark.parametrize("environment", [InlineBig, Big, ProcessBig])
async def test_a_client_that_does_not_read_is_sent_a_bounded_amount_and_gets_all_when_it_reads(serving, environment):
    base_url = serving(create_app(environment))
    async with connect(
        base_url.replace("http", "ws") + "/ws", compression=None, max_queue=1, write_limit=1 << 30
    ) as connection:
        await connection.send('{"type":"reset"}')
        await asyncio.wait_for(connection.recv(), 60)
        sending = asyncio.create_task(_send_steps(connection))
        assert await _settled_num_steps(base_url) < NUM_STEPS / 4
        for _ in range(NUM_STEPS):
            frame = await asyncio.wait_for(connection.recv(), 30)
        await sending
    assert frame.startswith('{"type":"observation"')


async def _send_steps(connection):
    for _ in range(NUM_STEPS):
        await connection.send(STEP)


async def _settled_num_steps(base_url):
    """Steps that the server has taken, once it takes no more."""
    num_steps, before = 0, -1
    async with httpx.AsyncClient() as http:
        while num_steps != before or not num_steps:
            await asyncio.sleep(0.3)
            before = num_steps
            text = (await http.get(f"{base_url}/metrics")).text
            found = re.search(r'openenv_verbs_total{verb="step"} ([0-9.]+)', text)
            num_steps = int(float(found[1])) if found else 0
    return num_steps


def _task_of_each_step(cls):
    """A subclass that records the task in which each step runs."""

    class Recording(cls):
        tasks: ClassVar[list[object]] = []

        def step(self, action, *args, **kwargs):
            self.tasks.append(asyncio.current_task())
            return super().step(action, *args, **kwargs)

    return Recording


def test_a_step_of_a_typed_echo_client_is_answered_in_the_call_that_reads_its_frame(serving):
    environment = _task_of_each_step(EchoEnvironment)
    with EchoEnv(base_url=serving(create_app(environment))) as env:
        env.reset()
        for _ in range(3):
            env.step(EchoAction(message="hello", metadata={"a": [1.5]}))
    assert environment.tasks == [None] * 3


def test_a_step_of_a_typed_openspiel_client_is_answered_in_the_call_that_reads_its_frame(serving):
    environment = _task_of_each_step(OpenSpielEnvironment)
    with OpenSpielEnv(base_url=serving(create_app(environment))) as env:
        result = env.reset(seed=3)
        while not result.done:
            result = env.step(OpenSpielAction(action_id=result.observation.legal_actions[0]))
    assert environment.tasks
    assert set(environment.tasks) == {None}


class Transport(asyncio.Transport):
    """A connection of which only is known whether it is read."""

    is_read = True

    def is_closing(self):
        return False

    def pause_reading(self):
        self.is_read = False

    def resume_reading(self):
        self.is_read = True


async def test_few_large_frames_that_wait_for_a_slow_reply_stop_the_reading():
    transport, slow = Transport(), asyncio.get_running_loop().create_future()
    connection = DirectWebSocket(transport, 1 << 30, asyncio.get_running_loop(), lambda error: None)
    playing = asyncio.create_task(connection.respond_with(lambda frame: PendingReply(slow, lambda result: b"")))
    await asyncio.sleep(0)
    frame = client_frame(TEXT, b"x" * 600_000)

    is_read = []
    for _ in range(3):
        connection.data_received(frame)
        await asyncio.sleep(0.05)  # the turns in which the rest of the frame is read
        is_read.append(transport.is_read)

    assert is_read == [True, True, False]
    connection.connection_lost(None)
    await playing
