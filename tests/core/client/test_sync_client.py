"""`sync()`: one way for scripts to use any client, also one whose methods an author wrote as coroutines."""

import asyncio
import contextlib
import copy
import threading

import pytest

from openenv.core.env_client import EnvClient
from openenv.core.env_server import create_app
from openenv.core.errors import EnvironmentFault
from openenv.core.sync_client import SyncEnvClient
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment


class ToolEnv(CountEnv):
    """As authors of the published package write a client: coroutines over the verbs, with state of their own."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.lock = asyncio.Lock()
        self.loops = set()

    async def add(self, amount: int) -> int:
        async with self.lock:
            await asyncio.sleep(0)
            self.loops.add((id(asyncio.get_running_loop()), threading.current_thread().name))
            result = await self.step(CountAction(amount=amount))
            return result.observation.total

    async def add_many(self, *amounts: int) -> list[int]:
        return list(await asyncio.gather(*(self.add(amount) for amount in amounts)))

    def total(self):
        """A coroutine where a loop runs, as clients of tools have it."""
        with contextlib.suppress(RuntimeError):
            asyncio.get_running_loop()
            self._use_async()
        return self.state()

    def twice(self, amount: int) -> int:
        return 2 * amount


class OverriddenEnv(CountEnv):
    async def reset(self, **kwargs):
        result = await super().reset(**kwargs)
        self.first = result.observation.total
        return result


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(create_app(CountingEnvironment))


def test_a_view_plays_and_closes_its_client(url):
    with CountEnv(url).sync() as env:
        assert isinstance(env, SyncEnvClient)
        assert env.reset(seed=7, start=1).observation.total == 1
        assert env.step(CountAction(amount=2), timeout_s=5).observation.total == 3
        assert env.state().total == 3
        assert (env.base_url, env.session_id) == (url, env.async_client.session_id)

    assert env.async_client.session_id is None


def test_a_view_need_not_be_entered(url):
    env = CountEnv(url).sync()
    assert env.reset().observation.total == 0
    env.disconnect()
    assert env.connect().reset().observation.total == 0
    env.close()


def test_coroutines_of_a_subclass_are_plain_methods(url):
    with ToolEnv(url).sync() as env:
        env.reset()
        assert env.add(2) == 2
        assert env.add_many(1, 1, 1) == [3, 4, 5]
        assert env.twice(4) == 8
        with pytest.raises(EnvironmentFault, match="not to my taste"):
            env.step(CountAction(amount=1, mischief="raise"))


async def test_they_are_also_where_an_event_loop_runs_and_always_in_the_same_loop(url):
    env = ToolEnv(url).sync()
    env.reset()
    assert env.add(2) == 2
    assert env.add(2) == 4
    assert len(env.loops) == 1
    env.close()


async def test_a_method_that_turns_into_a_coroutine_where_a_loop_runs_is_run_too(url):
    env = ToolEnv(url).sync()
    assert env.total().total == 0
    assert env.reset(start=4).observation.total == 4
    assert env.total().total == 4
    env.close()


async def test_the_same_subclass_is_asynchronous_when_it_is_entered_so(url):
    async with ToolEnv(url) as env:
        await env.reset()
        assert await env.add_many(1, 2) == [1, 3]


def test_the_thread_of_a_view_ends_with_it(url):
    def threads():
        return [thread for thread in threading.enumerate() if thread.name.startswith("coroutines of synchronous")]

    with ToolEnv(url).sync() as env:
        env.reset()
        env.add(1)
        assert len(threads()) == 1

    assert threads() == []


def test_a_verb_that_a_subclass_made_a_coroutine_is_run(url):
    with OverriddenEnv(url).sync() as env:
        assert env.reset(start=4).observation.total == 4
        assert env.first == 4


def test_a_view_of_a_view_of_sessions(url):
    with CountEnv(url).sync() as env:
        env.reset()
        other = env.new_session()
        other.reset(start=5)
        assert isinstance(other, SyncEnvClient)
        assert (env.state().total, other.state().total) == (0, 5)

    assert other.session_id is None


async def test_a_view_of_an_asynchronous_client_has_a_session_of_its_own(url):
    async with CountEnv(url) as env:
        await env.reset(start=3)
        view = SyncEnvClient(env)
        view.reset()
        assert (view.state().total, (await env.state()).total) == (0, 3)
        assert view.async_client is env
        view.close()


def test_a_view_maps_the_wire_as_its_client_does():
    view = CountEnv("http://127.0.0.1:9").sync()
    assert view._step_payload(CountAction(amount=1))["amount"] == 1
    assert view._parse_result({"observation": {"total": 2}}).observation.total == 2
    assert view._parse_state({"total": 2}).total == 2


def test_a_view_has_no_more_than_its_client():
    view = EnvClient("http://127.0.0.1:9").sync()
    with pytest.raises(AttributeError, match="nothing_like_it"):
        _ = view.nothing_like_it
    assert copy.copy(view).base_url == "http://127.0.0.1:9"
