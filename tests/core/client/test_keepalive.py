"""A dead connection is detected by a ping that stays unanswered, and costs no episode."""

import asyncio
import threading
import time

import pytest

from openenv.core.client.keepalive import PingAction, PingSchedule
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.errors import AnswerTimeout, SessionLost
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment
from tests.core.cutting_proxy import CuttingProxy

QUICK = {"websocket_ping_interval_s": 0.2, "websocket_ping_timeout_s": 0.2}
NO_PINGS = {"websocket_ping_interval_s": None, "websocket_ping_timeout_s": None}


def test_a_synchronous_client_comes_back_from_a_half_open_connection(proxy, app):
    with CountEnv(proxy.url, **QUICK) as env:
        env.reset(episode_id="e1")
        session_id = env.session_id
        proxy.swallow()
        began = time.monotonic()
        result = env.step(CountAction(amount=3))

        assert result.observation.total == 3
        assert time.monotonic() - began < 2
        assert (env.state().episode_id, env.state().step_count, env.session_id) == ("e1", 1, session_id)
        assert len(app.state.sessions) == 1


def test_a_step_whose_answer_was_swallowed_happens_once(proxy):
    with CountEnv(proxy.url, **QUICK) as env:
        env.reset()
        threading.Timer(0.1, proxy.swallow).start()  # the step sleeps for half a second, and has reached the server
        assert env.step(CountAction(amount=3, mischief="sleep")).observation.total == 3
        assert env.state().step_count == 1


async def test_an_asynchronous_client_comes_back_from_a_half_open_connection(proxy, app):
    async with CountEnv(proxy.url, **QUICK) as env:
        await env.reset(episode_id="e1")
        proxy.swallow()
        results = await asyncio.gather(*(env.step(CountAction(amount=1)) for _ in range(3)))

        assert [result.observation.total for result in results] == [1, 2, 3]
        assert ((await env.state()).episode_id, (await env.state()).step_count) == ("e1", 3)
        assert len(app.state.sessions) == 1


async def test_an_idle_asynchronous_client_notices_before_it_is_used(proxy):
    async with CountEnv(proxy.url, **QUICK) as env:
        await env.reset()
        proxy.swallow()
        assert await asyncio.to_thread(proxy.client_left.wait, 10)

        assert (await env.step(CountAction(amount=2))).observation.total == 2


def test_pings_are_answered_while_a_step_takes_longer_than_both_limits(proxy):
    with CountEnv(proxy.url, websocket_ping_interval_s=0.1, websocket_ping_timeout_s=0.1) as env:
        env.reset()
        env.step(CountAction(amount=1, mischief="sleep"))  # half a second

        assert proxy.num_accepted == 1


async def test_pings_are_answered_during_a_slow_step_of_an_asynchronous_client(proxy):
    async with CountEnv(proxy.url, websocket_ping_interval_s=0.1, websocket_ping_timeout_s=0.1) as env:
        await env.reset()
        await env.step(CountAction(amount=1, mischief="sleep"))

        assert proxy.num_accepted == 1


def test_silence_of_several_short_waits_adds_up(proxy):
    pings = {"websocket_ping_interval_s": 0.6, "websocket_ping_timeout_s": 0.6}
    with CountEnv(proxy.url, message_timeout_s=0.5, **pings) as env:
        env.reset()
        proxy.swallow()
        for _ in range(2):
            with pytest.raises(AnswerTimeout):
                env.step(CountAction(amount=1))

        env.state()
        assert proxy.num_accepted == 2


@pytest.mark.parametrize("settings", [NO_PINGS, {**QUICK, "websocket_ping_timeout_s": None}])
def test_without_pings_or_their_limit_a_half_open_connection_times_out(proxy, settings):
    with CountEnv(proxy.url, message_timeout_s=0.5, **settings) as env:
        env.reset()
        proxy.swallow()
        with pytest.raises(AnswerTimeout):
            env.step(CountAction(amount=1))

        assert proxy.num_accepted == 1


async def test_without_pings_an_asynchronous_client_times_out(proxy):
    async with CountEnv(proxy.url, message_timeout_s=0.5, **NO_PINGS) as env:
        await env.reset()
        proxy.swallow()
        with pytest.raises(AnswerTimeout):
            await env.step(CountAction(amount=1))

        assert proxy.num_accepted == 1


def test_a_server_that_stays_away_loses_the_session_with_the_reason(serving):
    proxy = CuttingProxy(serving(create_app(CountingEnvironment, config=ServerConfig(reconnect_grace_s=0.3))))
    with CountEnv(proxy.url, **QUICK) as env:
        env.reset()
        proxy.swallow()
        proxy.is_closed = True
        with pytest.raises(SessionLost, match=r"answered no ping in 0\.2 s"):
            env.step(CountAction(amount=1))
    proxy.close()


@pytest.mark.parametrize("name", ["websocket_ping_interval_s", "websocket_ping_timeout_s"])
def test_a_ping_limit_that_is_no_time_is_refused(name):
    with pytest.raises(ValueError, match=f"{name}=0: give seconds above 0"):
        CountEnv("http://127.0.0.1:9", **{name: 0})


def test_a_silent_server_gets_a_ping_and_is_given_up_when_it_stays_silent():
    schedule = PingSchedule(20.0, 5.0, now=100.0)
    assert schedule.due == 120.0
    assert schedule.check(119.9) is PingAction.NOTHING
    assert schedule.check(120.0) is PingAction.SEND_PING
    assert schedule.due == 125.0
    assert schedule.check(124.9) is PingAction.NOTHING
    assert schedule.check(125.0) is PingAction.GIVE_UP


def test_anything_that_arrives_postpones_the_ping():
    schedule = PingSchedule(20.0, 5.0, now=100.0)
    schedule.check(120.0)
    schedule.last_received = 121.0
    assert schedule.check(126.0) is PingAction.NOTHING
    assert schedule.due == 141.0


@pytest.mark.parametrize(("interval_s", "timeout_s"), [(None, 5.0), (20.0, None)])
def test_pings_and_their_timeout_can_be_turned_off(interval_s, timeout_s):
    schedule = PingSchedule(interval_s, timeout_s, now=0.0)
    actions = {schedule.check(now) for now in (0.0, 20.0, 1e9)}
    assert actions == {PingAction.NOTHING} | ({PingAction.SEND_PING} if interval_s else set())
