"""One client, two modes: plain use is synchronous, also where a loop runs; entered or awaited, it is asynchronous."""

import asyncio
import copy
import math
import pickle

import pytest

from openenv.core.env_server import Action, create_app
from openenv.core.errors import AnswerTimeout, InvalidMessage, OpenEnvError, SessionLost
from openenv.core.generic_client import GenericAction, GenericEnvClient
from openenv.core.http_env_client import HTTPEnvClient
from openenv.core.session_pool import SessionPool
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment
from tests.core.env_server.probes import wait_until


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(create_app(CountingEnvironment))


async def test_plain_use_is_synchronous_where_a_loop_runs(url):
    env = CountEnv(base_url=url)
    result = env.reset()

    assert result.observation.total == 0
    env.close()


async def test_results_of_a_plain_client_may_be_awaited(url):
    env = CountEnv(base_url=url)
    result = await env.reset()
    stepped = await env.step(CountAction(amount=2))
    state = await env.state()
    await env.close()

    assert (result.observation.total, stepped.observation.total, state.total) == (0, 2, 2)


async def test_async_with_makes_the_verbs_coroutines(url):
    async with CountEnv(base_url=url) as env:
        await env.reset()
        assert (await env.step(CountAction(amount=2))).observation.total == 2
        assert (await env.state()).step_count == 1


async def test_awaiting_connect_makes_the_client_asynchronous(url):
    env = await CountEnv(base_url=url).connect()
    assert asyncio.iscoroutine(pending := env.reset())
    assert (await pending).observation.total == 0
    await env.close()


def test_connect_without_a_loop_connects_now():
    with pytest.raises(OpenEnvError, match="is the server running"):
        CountEnv("http://127.0.0.1:9").connect()


async def test_requests_under_way_at_one_time_get_their_own_answers_in_order(url):
    async with CountEnv(base_url=url) as env:
        await env.reset()
        results = await asyncio.gather(*(env.step(CountAction(amount=1)) for _ in range(5)))

        assert [result.observation.total for result in results] == [1, 2, 3, 4, 5]


@pytest.mark.parametrize("enter", [False, True])
async def test_first_verbs_awaited_together_open_one_session(serving, enter):
    app = create_app(CountingEnvironment)
    env = CountEnv(base_url=serving(app))
    if enter:
        connections = await asyncio.gather(env.connect(), env.connect())
        assert connections == [env, env]
    async with env:
        await asyncio.gather(env.reset(), env.state(), env.state())

        assert len(app.state.sessions) == 1


async def test_a_reset_is_of_the_session_that_is_there_when_it_is_awaited_and_a_step_of_none_other(url):
    async with CountEnv(base_url=url) as env:
        await env.reset()
        reset, step = env.reset(), env.step(CountAction(amount=1))
        await env.disconnect()
        assert (await reset).observation.total == 0
        with pytest.raises(SessionLost):
            await step
        assert (await env.step(CountAction(amount=2))).observation.total == 2


def test_a_client_may_be_used_in_one_event_loop_after_another(url):
    env = CountEnv(base_url=url)

    async def play() -> None:
        async with env:
            await asyncio.gather(env.reset(), env.state())

    asyncio.run(play())
    asyncio.run(play())


@pytest.mark.parametrize("copied", [lambda env: pickle.loads(pickle.dumps(env)), copy.copy, copy.deepcopy])
def test_a_copy_of_a_client_has_its_settings_and_a_session_of_its_own(url, copied):
    with CountEnv(url, message_timeout_s=7) as env:
        env.reset()
        env.step(CountAction(amount=3))
        with copied(env) as twin:
            twin.reset()
            assert twin.step(CountAction(amount=1)).observation.total == 1
            assert twin.address.message_timeout_s == 7
        assert env.step(CountAction(amount=1)).observation.total == 4


def test_a_client_that_runs_a_server_of_its_own_is_not_copied():
    with pytest.raises(TypeError, match=r"CountEnv runs a server of its own.* make a client of its base_url there"):
        pickle.dumps(CountEnv.from_docker_image("count:latest"))


def test_a_client_left_open_in_an_event_loop_that_has_ended_opens_a_session_in_the_next(url):
    env = CountEnv(base_url=url, message_timeout_s=5)

    async def begin() -> None:
        await env.connect()
        await env.reset()

    async def go_on() -> int:
        with pytest.raises(SessionLost, match=r"an event loop that has ended: reset\(\) starts a new episode"):
            await asyncio.wait_for(env.step(CountAction(amount=1)), 10)
        await asyncio.wait_for(env.reset(), 10)
        result = await env.step(CountAction(amount=2))
        return result.observation.total

    async def end() -> None:
        await asyncio.wait_for(env.close(), 10)

    asyncio.run(begin())
    assert asyncio.run(go_on()) == 2
    asyncio.run(end())


async def test_a_client_of_a_loop_that_runs_is_refused_in_another_thread(url):
    async with CountEnv(base_url=url) as env:
        await env.reset()

        with pytest.raises(OpenEnvError, match="used in the event loop of another thread: make a client for each"):
            await asyncio.to_thread(lambda: asyncio.run(asyncio.wait_for(env.reset(), 10)))
        assert (await env.step(CountAction(amount=2))).observation.total == 2


async def test_a_late_answer_goes_to_no_other_request(url):
    async with CountEnv(base_url=url, message_timeout_s=0.2) as env:
        await env.reset()
        with pytest.raises(AnswerTimeout):
            await env.step(CountAction(amount=4, mischief="sleep"))

        next_step = await env.step(CountAction(amount=1), timeout_s=5)  # waited for before the late answer comes
        assert next_step.observation.total == 5


async def test_the_synchronous_twin_of_an_asynchronous_client_is_synchronous(url):
    async with CountEnv(base_url=url) as env:
        twin = env.sync()
        assert twin.reset().observation.total == 0
        twin.close()


def test_a_generic_client_plays_with_dictionaries(url):
    with GenericEnvClient(url) as env:
        env.reset()
        assert env.step(GenericAction(amount=3)).observation["total"] == 3
        assert env.state()["total"] == 3


class EqualAction(Action):
    amount: int = 1


class OtherAction(Action):
    amount: int = 1
    colour: str | None = None


@pytest.mark.parametrize("action", [{"amount": 3}, GenericAction(amount=3), EqualAction(amount=3)])
@pytest.mark.parametrize("client", [CountEnv, GenericEnvClient])
@pytest.mark.finding("an environment of any name is played to its end, and the fields of an action are an action")
def test_the_fields_of_an_action_are_an_action(url, client, action):
    with client(url) as env:
        env.reset()
        env.step(action)
        assert dict(env.state())["total"] == 3


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ({"amount": "many"}, "amount: Input should be a valid integer"),
        ({"amont": 1}, "amont: Extra inputs are not permitted"),
        (OtherAction(colour="red"), "colour: Extra inputs are not permitted"),
    ],
)
def test_wrong_fields_are_refused_before_they_are_sent(url, action, message):
    with CountEnv(url) as env:
        env.reset()
        with pytest.raises(InvalidMessage, match=message):
            env.step(action)
        assert env.step(CountAction(amount=2)).observation.total == 2


def test_an_object_without_fields_is_no_action(url):
    with CountEnv(url) as env, pytest.raises(TypeError, match=r"CountEnv\.step takes CountAction or a mapping of its"):
        env.step(3)


def test_hooks_may_be_overridden(url):
    class Shouting(CountEnv):
        def _step_payload(self, action):
            return {"amount": action * 2}

        def _parse_state(self, payload):
            return payload["total"]

    with Shouting(url) as env:
        env.reset()
        assert env.step(3).observation.total == 6
        assert env.state() == 6


async def test_a_pool_plays_its_sessions_at_the_same_time_and_keeps_errors_apart(url):
    async with SessionPool(CountEnv, url, 3) as pool:
        await pool.reset({index: {"seed": 7, "start": index} for index in range(3)})
        results = await pool.step({0: CountAction(amount=1), 2: CountAction(amount=1, mischief="raise")})

        assert results[0].observation.total == 1
        assert isinstance(results[2], OpenEnvError)
        assert (await pool.step({2: CountAction(amount=1)}))[2].observation.total == 3


async def test_a_pool_that_cannot_connect_raises_and_leaves_nothing_open(serving):
    app = create_app(CountingEnvironment)
    urls = iter([serving(app), "http://127.0.0.1:9"])
    with pytest.raises(OpenEnvError, match="is the server running"):
        async with SessionPool(lambda base_url: CountEnv(next(urls)), "", 2):
            pass
    await asyncio.to_thread(wait_until, lambda: len(app.state.sessions) == 0)


@pytest.mark.parametrize("client", [GenericEnvClient, HTTPEnvClient])
@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"base_url": "http://127.0.0.1:99999"}, "base_url='http://127.0.0.1:99999': Port out of range"),
        ({"base_url": "http://127.0.0.1:x"}, "base_url='http://127.0.0.1:x': Port could not be cast"),
        ({"base_url": "http://[::1"}, r"base_url='http://\[::1': Invalid IPv6 URL\. Give a URL such as"),
        ({"base_url": "http://a..b"}, r"base_url='http://a\.\.b'.* Give a URL such as"),
        ({"base_url": "http://two words"}, "base_url='http://two words': Give a URL such as"),
        ({"base_url": "http://localhost:80\n"}, r"base_url='http://localhost:80\\n': Give a URL such as"),
        ({"connect_timeout_s": math.nan}, "connect_timeout_s=nan: give a finite number of seconds above 0"),
        ({"connect_timeout_s": math.inf}, "connect_timeout_s=inf: give a finite number of seconds above 0"),
        ({"message_timeout_s": 0}, "message_timeout_s=0: give a finite number of seconds above 0"),
        ({"message_timeout_s": "5"}, "message_timeout_s='5': give a finite number of seconds above 0"),
        ({"message_timeout_s": None}, "message_timeout_s=None: give a finite number of seconds above 0"),
        ({"max_message_size_mb": math.nan}, "max_message_size_mb=nan: give a size above 0"),
        ({"max_message_size_mb": -1}, "max_message_size_mb=-1: give a size above 0"),
        ({"headers": {"X-Key": None}}, r"headers\['X-Key'\]: the name or the value holds a line break, or is no text"),
    ],
)
def test_a_setting_that_no_connection_can_have_is_refused_by_its_name_when_the_client_is_made(
    client, settings, message
):
    with pytest.raises(ValueError, match=message):
        client(**{"base_url": "http://localhost:8000", **settings})


@pytest.mark.parametrize(
    ("keywords", "message"),
    [
        ({"a": {"b": [1, {2}]}}, r"a\.b\[1\]=\{2\} cannot be sent as JSON"),
        ({"a": "\ud800"}, r"a='.ud800' cannot be sent as JSON"),
        ({"a": {1: 2}}, r"a=\{1: 2\} cannot be sent as JSON .*objects whose keys are texts"),
    ],
)
def test_a_value_that_json_cannot_represent_is_named_by_its_place(url, keywords, message):
    with CountEnv(url) as env:
        with pytest.raises(TypeError, match=message):
            env.reset(**keywords)
        env.reset()


@pytest.mark.parametrize("limit", [math.nan, "1"])
def test_a_time_limit_that_is_no_number_is_refused(url, limit):
    with CountEnv(url) as env:
        env.reset()
        with pytest.raises(ValueError, match=f"timeout_s={limit!r}: give a number of seconds above 0"):
            env.step(CountAction(amount=1), timeout_s=limit)
        assert env.step(CountAction(amount=2)).observation.total == 2
