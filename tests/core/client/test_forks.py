"""A forked process has no part in its parent's sessions, and the parent's servers outlive it."""

import asyncio
import os
import pickle
import select
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest

from openenv.core.env_client import EnvClient
from openenv.core.env_server import create_app
from openenv.core.errors import SessionLost
from openenv.core.generic_client import GenericAction, GenericEnvClient
from openenv.core.http_env_client import HTTPEnvClient
from openenv.core.mcp_client import MCPToolClient
from openenv.core.session_pool import SessionPool
from openenv.core.vector.env import VectorEnv
from openenv.hosting.local_process import LocalServer
from openenv.hosting.sandbox.box_spec import BoxSpec
from openenv.hosting.sandbox.python_files import with_python
from openenv.hosting.sandbox.sandbox import SandboxHost
from tests.core.counting_env import (
    CountAction,
    CountEnv,
    CountingEnvironment,
    CountObservation,
    CountState,
    InlineEnvironment,
)
from tests.core.tool_env import NotebookEnvironment


class HTTPCountEnv(HTTPEnvClient[CountAction, CountObservation, CountState]):
    """A typed client over plain HTTP."""


def in_child(act: Callable[[], Any]) -> Any:
    """What `act` returns, or the exception that it raises, in a forked process."""
    reading, writing = os.pipe()
    child = os.fork()
    if child == 0:
        signal.alarm(30)  # a child that hangs must not outlive the test
        try:
            try:
                result = act()
            except Exception as error:  # noqa: BLE001  the parent looks at it
                result = error
            os.write(writing, pickle.dumps(result))
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as answer:
        data = answer.read()
    os.waitpid(child, 0)
    return pickle.loads(data)


@pytest.fixture
def url(serving) -> str:
    return serving(create_app(CountingEnvironment))


@pytest.mark.parametrize("client_cls", [CountEnv, GenericEnvClient, HTTPCountEnv])
@pytest.mark.finding("a client knows its process and its event loop")
def test_a_forked_childs_client_refuses_the_parents_episode(url, client_cls: type[EnvClient[Any, Any, Any]]):
    action = GenericAction(amount=1) if client_cls is GenericEnvClient else CountAction(amount=1)
    with client_cls(url) as env:
        env.reset()
        refused = in_child(lambda: env.step(action))
        env.step(action)

        assert isinstance(refused, SessionLost)
        assert "reset() starts a new episode in a session of its own" in str(refused)
        state: Any = env.state()
        assert (state["step_count"] if client_cls is GenericEnvClient else state.step_count) == 1


@pytest.mark.parametrize("client_cls", [CountEnv, HTTPCountEnv])
@pytest.mark.finding("a client knows its process and its event loop")
def test_a_reset_in_a_forked_child_opens_a_session_of_its_own(url, client_cls: type[EnvClient[Any, Any, Any]]):
    def episode() -> tuple[str | None, int]:
        env.reset(start=5)
        total = env.step(CountAction(amount=2)).observation.total
        session_id = env.session_id
        env.close()
        return session_id, total

    with client_cls(url) as env:
        env.reset(start=1)
        childs_id, total = in_child(episode)

        assert total == 7
        assert childs_id != env.session_id
        assert env.step(CountAction(amount=1)).observation.total == 2


@pytest.mark.parametrize("client_cls", [CountEnv, HTTPCountEnv])
def test_a_client_that_a_forked_child_closes_stays_open_in_the_parent(url, client_cls: type[EnvClient[Any, Any, Any]]):
    with client_cls(url) as env:
        env.reset(start=1)
        in_child(env.close)

        assert env.step(CountAction(amount=1)).observation.total == 2


async def test_a_forked_childs_asynchronous_client_refuses_the_parents_episode_and_resets_in_its_own_loop(url):
    async def episode() -> tuple[str, int]:
        with pytest.raises(SessionLost) as refused:
            await env.step(CountAction(amount=1))
        await env.reset(start=5)
        total = (await env.step(CountAction(amount=2))).observation.total
        await env.close()
        return str(refused.value), total

    async with CountEnv(url) as env:
        await env.reset(start=1)
        refused, total = in_child(lambda: asyncio.run(episode()))

        assert ("reset() starts a new episode in a session of its own" in refused, total) == (True, 7)
        assert (await env.step(CountAction(amount=1))).observation.total == 2


@pytest.mark.parametrize("environment", [CountingEnvironment, InlineEnvironment])
async def test_a_forked_childs_session_pool_has_sessions_of_its_own(serving, environment):
    async def episode() -> tuple[Any, int]:
        refused = (await pool.step({0: CountAction(amount=1)}))[0]
        await pool.reset({0: {"start": 5}})
        return refused, (await pool.step({0: CountAction(amount=2)}))[0].observation.total

    async with SessionPool(CountEnv, serving(create_app(environment)), 2) as pool:
        await pool.reset({0: {"start": 1}, 1: {"start": 2}})
        refused, total = in_child(lambda: asyncio.run(episode()))
        results = await pool.step({0: CountAction(amount=1), 1: CountAction(amount=1)})

        assert (type(refused), total) == (SessionLost, 7)
        assert [results[index].observation.total for index in (0, 1)] == [2, 3]


def test_a_forked_childs_vector_has_sessions_of_its_own_and_stops_no_server(serving):
    stopped: list[str] = []

    def episode() -> tuple[Any, list[float]]:
        try:
            envs.step({"amount": [1, 1], "mischief": ["", ""]})
        except SessionLost as error:
            refused = error
        envs.reset(options={"start": 5})
        rewards = envs.step({"amount": [2, 3], "mischief": ["", ""]})[1].tolist()
        envs.close()
        return refused, [*rewards, len(stopped)]

    envs: VectorEnv = CountEnv(serving(create_app(InlineEnvironment))).vector(2, options={"start": 1})
    envs.after_close.append(lambda: stopped.append("server"))
    with envs:
        refused, answers = in_child(episode)

        assert (type(refused), answers) == (SessionLost, [2.0, 3.0, 0])
        assert envs.step({"amount": [1, 1], "mischief": ["", ""]})[0]["total"].tolist() == [2, 2]


def test_a_forked_childs_synchronous_view_runs_coroutines_in_a_thread_of_its_own(serving):
    class Counted(MCPToolClient):
        async def number_of_tools(self) -> int:
            await asyncio.sleep(0)
            return 3

    with Counted(serving(create_app(NotebookEnvironment))).sync() as env:
        assert env.number_of_tools() == 3
        assert in_child(env.number_of_tools) == 3


def test_a_forked_child_that_closes_a_client_does_not_stop_the_parents_server():
    server = LocalServer("tests.core.counting_env")
    with CountEnv(provider=server) as env:
        env.reset(start=1)
        in_child(env.close)
        in_child(server.stop)

        assert env.step(CountAction(amount=1)).observation.total == 2


def test_a_forked_child_keeps_no_sandbox_of_its_parent_alive():
    host = SandboxHost()
    box = host.start(with_python(BoxSpec(command=("python", "-c", "import time; time.sleep(60)"))))
    child = os.fork()
    if child == 0:
        time.sleep(60)
        os._exit(0)
    host.close()
    ended = select.select([box.pidfd], [], [], 10)[0]
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)

    assert ended == [box.pidfd]
