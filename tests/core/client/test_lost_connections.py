"""A broken connection never costs an episode, never repeats a step, and never starts one without a request."""

import asyncio
import threading

import orjson
import pytest
from websockets.asyncio.server import serve
from websockets.sync.client import connect

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.errors import AnswerTimeout, CapacityReached, MessageTooBig, SessionGone, SessionLost
from openenv.core.generic_client import GenericEnvClient
from openenv.core.wire.constants import SUBPROTOCOL
from openenv.hosting.local_process import LocalServer
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment, SavingEnvironment
from tests.core.cutting_proxy import CuttingProxy
from tests.core.env_server.probes import wait_for_running_verbs, wait_until


def test_a_synchronous_client_goes_on_in_the_same_episode(proxy, app):
    with CountEnv(proxy.url) as env:
        env.reset(episode_id="e1")
        session_id = env.session_id
        for total in range(1, 5):
            assert env.step(CountAction(amount=1)).observation.total == total
            proxy.cut()

        assert (env.state().episode_id, env.state().step_count, env.session_id) == ("e1", 4, session_id)
        assert len(app.state.sessions) == 1


async def test_an_asynchronous_client_goes_on_in_the_same_episode(proxy, app):
    async with CountEnv(proxy.url) as env:
        await env.reset(episode_id="e1")
        for total in range(1, 5):
            assert (await env.step(CountAction(amount=1))).observation.total == total
            proxy.cut()

        assert (await env.state()).step_count == 4
        assert len(app.state.sessions) == 1


def test_a_connection_that_breaks_before_the_first_request_costs_a_synchronous_client_nothing(proxy, app):
    with CountEnv(proxy.url) as env:
        session_id = env.session_id
        proxy.cut()

        assert env.reset(start=3).observation.total == 3
        assert (env.session_id, len(app.state.sessions)) == (session_id, 1)


async def test_a_connection_that_breaks_before_the_first_request_costs_an_asynchronous_client_nothing(proxy, app):
    async with CountEnv(proxy.url) as env:
        session_id = env.session_id
        proxy.cut()

        assert (await env.reset(start=3)).observation.total == 3
        assert (env.session_id, len(app.state.sessions)) == (session_id, 1)


async def test_a_client_that_is_cancelled_while_the_server_makes_its_environment_leaves_no_session(serving):
    is_being_made, may_be_made = threading.Event(), threading.Event()

    class SlowToMake(CountingEnvironment):
        def __init__(self) -> None:
            super().__init__()
            is_being_made.set()
            may_be_made.wait(10)

    app = create_app(SlowToMake, config=ServerConfig(reconnect_grace_s=600))
    connecting = asyncio.ensure_future(CountEnv(serving(app)).__aenter__())
    await asyncio.to_thread(is_being_made.wait, 10)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    may_be_made.set()

    await asyncio.to_thread(wait_until, lambda: app.state.sessions.capacity.num_acquired == 0)


async def test_a_client_whose_first_connection_was_refused_keeps_its_later_deadlines(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_sessions=1)))
    env = CountEnv(url, message_timeout_s=0.3)
    async with CountEnv(url):
        with pytest.raises(CapacityReached):
            await env.connect()
    async with env:
        await env.reset()
        with pytest.raises(AnswerTimeout):
            await env.step(CountAction(amount=1, mischief="sleep"))


async def test_a_client_that_disconnects_as_its_connection_breaks_reconnects_in_its_next_session(proxy):
    async with CountEnv(proxy.url, message_timeout_s=5) as env:
        for turns in range(8):
            await env.reset()
            step = asyncio.ensure_future(env.step(CountAction(amount=1, mischief="sleep")))
            await asyncio.sleep(0)
            proxy.cut()
            for _ in range(turns):
                await asyncio.sleep(0)
            await env.disconnect()
            with pytest.raises(SessionLost):
                await step
            await env.reset()
            proxy.cut()

            assert (await env.step(CountAction(amount=2))).observation.total == 2


async def test_requests_sent_during_a_reconnection_wait_for_it():
    is_back, may_return, num_connections = asyncio.Event(), asyncio.Event(), 0

    async def answer(connection):
        nonlocal num_connections
        num_connections += 1
        if num_connections == 2:
            is_back.set()
            await may_return.wait()
        await connection.send('{"type":"session","data":{"session_id":"s","grace_s":60}}')
        async for frame in connection:
            request = orjson.loads(frame)
            if request["type"] == "reset" and num_connections == 1:
                connection.transport.abort()
                return
            if request["type"] == "close":
                return
            kind = "state" if request["type"] == "state" else "observation"
            data = {"observation": {}, "reward": 0.0, "done": False}
            await connection.send(orjson.dumps({"type": kind, "id": request["id"], "data": data}).decode())

    server = await serve(answer, "127.0.0.1", 0, subprotocols=[SUBPROTOCOL])
    async with server, GenericEnvClient(f"http://127.0.0.1:{server.sockets[0].getsockname()[1]}") as env:
        requests = [asyncio.ensure_future(env.reset())]
        await is_back.wait()
        for _ in range(3):
            requests.append(asyncio.ensure_future(env.state()))
            await asyncio.sleep(0)
        may_return.set()
        await asyncio.gather(*requests)

    assert num_connections == 2


def test_a_step_that_was_under_way_when_the_connection_broke_happens_once(proxy):
    with CountEnv(proxy.url) as env:
        env.reset()
        threading.Timer(0.2, proxy.cut).start()  # the step sleeps for half a second
        result = env.step(CountAction(amount=3, mischief="sleep"))

        assert result.observation.total == 3
        assert env.state().step_count == 1


async def test_requests_under_way_together_each_happen_once_and_in_order(proxy):
    async with CountEnv(proxy.url) as env:
        await env.reset()
        steps = [asyncio.create_task(env.step(CountAction(amount=1, mischief="sleep"))) for _ in range(3)]
        await steps[0]
        proxy.cut()
        results = await asyncio.gather(*steps)

        assert [result.observation.total for result in results] == [1, 2, 3]
        assert (await env.state()).step_count == 3


def test_a_reset_that_is_repeated_happens_once(proxy):
    with CountEnv(proxy.url) as env:
        env.reset(seed=1)
        env.step(CountAction(amount=1))
        proxy.cut()

        assert env.reset(seed=1).observation.total == 0
        assert env.state().step_count == 0


def test_a_client_that_stays_away_too_long_loses_its_session(serving):
    app = create_app(CountingEnvironment, config=ServerConfig(reconnect_grace_s=0.3))
    proxy = CuttingProxy(serving(app))
    with CountEnv(proxy.url) as env:
        env.reset()
        proxy.cut()
        wait_until(lambda: len(app.state.sessions) == 0)
        with pytest.raises(SessionGone, match=r"reset\(\) starts a new episode"):
            env.step(CountAction(amount=1))
        with pytest.raises(SessionLost):
            env.step(CountAction(amount=1))

        assert env.reset().observation.total == 0
    proxy.close()


async def test_an_asynchronous_client_that_stays_away_too_long_loses_its_session(serving):
    app = create_app(CountingEnvironment, config=ServerConfig(reconnect_grace_s=0.3))
    proxy = CuttingProxy(serving(app))
    async with CountEnv(proxy.url) as env:
        await env.reset()
        proxy.cut()
        await asyncio.to_thread(wait_until, lambda: len(app.state.sessions) == 0)
        with pytest.raises(SessionLost):
            await env.step(CountAction(amount=1))

        assert (await env.reset()).observation.total == 0
    proxy.close()


def test_a_server_that_does_not_come_back_is_a_lost_session(serving):
    proxy = CuttingProxy(serving(create_app(CountingEnvironment, config=ServerConfig(reconnect_grace_s=0.5))))
    with CountEnv(proxy.url) as env:
        env.reset()
        proxy.is_closed = True
        proxy.cut()
        with pytest.raises(SessionLost, match=r"did not come back in 0\.5 s"):
            env.step(CountAction(amount=1))
    proxy.close()


def test_a_restarted_server_is_never_a_silent_new_episode():
    with LocalServer("tests.core.counting_env") as first:
        proxy = CuttingProxy(first.base_url)
        env = CountEnv(proxy.url)
        env.reset()
        with LocalServer("tests.core.counting_env") as second:
            proxy.redirect(second.base_url)
            proxy.cut()
            with pytest.raises(SessionGone, match="Unknown session_id"):
                env.step(CountAction(amount=1))
            env.close()
    proxy.close()


def test_closing_ends_the_session_at_once(proxy, app):
    with CountEnv(proxy.url) as env:
        env.reset()
    wait_until(lambda: len(app.state.sessions) == 0)


def test_a_published_client_s_session_ends_with_its_connection(serving, app):
    url = serving(app).replace("http", "ws") + "/ws"
    with connect(url) as socket:
        socket.send('{"type": "reset"}')
        socket.recv()
        assert len(app.state.sessions) == 1
    wait_until(lambda: len(app.state.sessions) == 0)


def test_a_repeated_request_id_gets_the_recorded_answer(serving, app):
    url = serving(app).replace("http", "ws") + "/ws"
    with connect(url, subprotocols=[SUBPROTOCOL]) as socket:
        assert orjson.loads(socket.recv())["type"] == "session"
        answers = []
        for message in (
            {"type": "reset", "id": "a", "data": {}},
            {"type": "step", "id": "b", "data": {"amount": 4}},
            {"type": "step", "id": "b", "data": {"amount": 4}},
            {"type": "state", "id": "c"},
        ):
            socket.send(orjson.dumps(message).decode())
            answers.append(orjson.loads(socket.recv()))

    assert answers[1] == answers[2]
    assert answers[1]["validity"] == "valid"
    assert (answers[3]["data"]["step_count"], answers[3]["id"]) == (1, "c")


def test_a_client_may_attach_to_a_session_by_its_id(proxy):
    with CountEnv(proxy.url) as env:
        env.reset(start=7)
        with GenericEnvClient(proxy.url, session_id=env.session_id) as other:
            assert other.state()["total"] == 7


LARGE = {"metadata": {"text": "x" * 200_000}}  # what the environment repeats


def test_an_answer_above_the_clients_limit_is_named_and_asked_for_once(proxy):
    with CountEnv(proxy.url, max_message_size_mb=0.1) as env:
        env.reset()
        for _ in range(2):
            with pytest.raises(MessageTooBig, match="limit of 104857: raise max_message_size_mb"):
                env.step(CountAction(amount=1, **LARGE))

        assert env.step(CountAction(amount=1)).observation.total == 3
        assert env.state().step_count == 3
        assert proxy.num_accepted == 1


async def test_of_answers_under_way_together_only_the_one_above_the_limit_is_an_error(proxy):
    async with CountEnv(proxy.url, max_message_size_mb=0.1) as env:
        await env.reset()
        actions = [CountAction(amount=1), CountAction(amount=1, **LARGE), CountAction(amount=1)]
        first, second, third = await asyncio.gather(*map(env.step, actions), return_exceptions=True)

        assert isinstance(second, MessageTooBig)
        assert "limit of 104857: raise max_message_size_mb" in str(second)
        assert (first.observation.total, third.observation.total) == (1, 3)
        assert (await env.state()).step_count == 3
        assert proxy.num_accepted == 1


def test_a_late_answer_above_the_limit_is_dropped(proxy):
    with CountEnv(proxy.url, max_message_size_mb=0.1, message_timeout_s=0.2) as env:
        env.reset()
        with pytest.raises(AnswerTimeout):
            env.step(CountAction(amount=1, mischief="sleep", **LARGE))
        wait_for_running_verbs(proxy.url, env.session_id)

        assert env.step(CountAction(amount=1)).observation.total == 2


@pytest.mark.parametrize("verb", ["step", "reset"])
def test_of_a_session_that_was_gone_before_its_first_use_only_a_reset_opens_another(proxy, verb):
    env = CountEnv(proxy.url, session_id="gone")
    if verb == "step":
        for _ in range(2):
            with pytest.raises(SessionGone, match=r"reset\(\) starts a new episode"):
                env.step(CountAction(amount=1))

    assert env.reset().observation.total == 0
    assert env.step(CountAction(amount=1)).observation.total == 1
    assert env.session_id != "gone"
    env.close()


async def test_an_asynchronous_branch_that_is_gone_before_its_first_use_may_be_reset(serving):
    app = create_app(SavingEnvironment, config=ServerConfig(idle_timeout_s=0.2))
    async with CountEnv(serving(app)) as env:
        await env.reset()
        (branch,) = await env.fork(1)
        await asyncio.to_thread(wait_until, lambda: len(app.state.sessions) == 0)
        with pytest.raises(SessionGone):
            await branch.step(CountAction(amount=1))

        assert (await branch.reset()).observation.total == 0
        await branch.close()
