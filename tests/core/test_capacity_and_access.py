"""Who gets a session and when: the queue, draining, tokens, origins, sizes; and what a server keeps for its clients."""

import asyncio
import os
import signal
import socket
import threading
import time

import httpx
import pytest
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from openenv.core.containers.local_process import LocalServer
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.errors import (
    CapacityReached,
    MessageTooBig,
    NotSupported,
    SessionFault,
    TimeLimitExceeded,
    Unauthorized,
)
from openenv.core.http_env_client import HTTPEnvClient
from openenv.core.protocol import SUBPROTOCOL
from tests.core.counting_env import (
    CountAction,
    CountEnv,
    CountingEnvironment,
    CountObservation,
    CountState,
    ProcessEnvironment,
    SavingEnvironment,
)
from tests.core.cutting_proxy import CuttingProxy


def test_a_waiting_client_gets_the_next_free_session(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_sessions=1, max_waiting=4)))
    first = CountEnv(url)
    first.reset()
    threading.Timer(0.3, first.close).start()
    with CountEnv(url) as second:
        assert second.reset().observation.total == 0


async def test_waiting_clients_are_served_in_the_order_in_which_they_came(serving):
    app = create_app(CountingEnvironment, config=ServerConfig(max_sessions=1, max_waiting=4))
    url = serving(app)
    served = []

    async def play(name: int) -> None:
        async with CountEnv(url) as env:
            await env.reset()
            served.append(name)

    async with CountEnv(url) as holder:
        await holder.reset()
        tasks = []
        for name in range(3):
            tasks.append(asyncio.create_task(play(name)))
            while app.state.sessions.num_waiting <= name:  # noqa: ASYNC110  the server has no event for a test to wait on
                await asyncio.sleep(0.01)
    await asyncio.gather(*tasks)

    assert served == [0, 1, 2]


class SlowToClose(CountingEnvironment):
    def close(self) -> None:
        time.sleep(0.2)


@pytest.mark.parametrize("execution", ["inline", "thread", "process"])
def test_the_place_of_a_client_is_free_when_it_has_closed(serving, execution):
    url = serving(create_app(SlowToClose, config=ServerConfig(max_sessions=1, execution=execution)))
    for _ in range(3):
        with CountEnv(url) as env:
            env.reset()


async def test_the_place_of_an_asynchronous_client_is_free_when_it_has_closed(serving):
    url = serving(create_app(SlowToClose, config=ServerConfig(max_sessions=1)))
    for _ in range(3):
        async with CountEnv(url) as env:
            await env.reset()


def test_a_full_queue_refuses_at_once_and_says_when_to_try_again(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_sessions=1, max_waiting=1, max_wait_s=0.3)))
    with CountEnv(url) as env:
        env.reset()
        waiting = threading.Thread(target=lambda: httpx.post(f"{url}/reset"))
        waiting.start()
        time.sleep(0.1)
        response = httpx.post(f"{url}/reset", headers={"X-Session-Id": "new"})
        waiting.join()

    assert response.status_code == 503
    assert int(response.headers["retry-after"]) >= 1


def test_a_wait_that_is_too_long_is_refused(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_sessions=1, max_waiting=4, max_wait_s=0.2)))
    with CountEnv(url) as env:
        env.reset()
        with pytest.raises(CapacityReached):
            CountEnv(url).reset()


def test_a_server_that_stops_finishes_the_steps_that_run_and_exits_cleanly():
    server = LocalServer("tests.core.counting_env").start()
    env = CountEnv(server.base_url)
    env.reset()
    pid = server.pid
    threading.Timer(0.15, lambda: os.kill(pid, signal.SIGTERM)).start()
    result = env.step(CountAction(amount=2, mischief="sleep"))  # half a second
    code = server._process.wait(10)
    server.stop()

    assert result.observation.total == 2
    assert code == 0


def test_a_sigterm_to_the_whole_group_leaves_workers_to_finish_their_step():
    with LocalServer("tests.core.counting_env", ["--serve", "ProcessEnvironment"]) as server:
        env = CountEnv(server.base_url)
        env.reset()
        group = os.getpgid(server.pid)
        assert group == server.pid != os.getpgid(0)
        threading.Timer(0.15, lambda: os.killpg(group, signal.SIGTERM)).start()
        result = env.step(CountAction(amount=2, mischief="sleep"))  # half a second
        code = server._process.wait(10)

    assert (result.observation.total, code) == (2, 0)


async def test_a_client_that_waits_longer_than_it_connects_is_patient_and_one_that_leaves_gives_up_its_place(serving):
    app = create_app(CountingEnvironment, config=ServerConfig(max_sessions=1, max_waiting=4))
    url = serving(app)
    async with CountEnv(url, connect_timeout_s=0.3) as first:
        await first.reset()
        leaving = asyncio.ensure_future(CountEnv(url).__aenter__())
        await until(lambda: app.state.sessions.num_waiting == 1)
        staying = asyncio.ensure_future(CountEnv(url, connect_timeout_s=0.3).__aenter__())
        await until(lambda: app.state.sessions.num_waiting == 2)
        leaving.cancel()
        await until(lambda: app.state.sessions.num_waiting == 1)
        await asyncio.sleep(0.5)  # longer than its connect_timeout_s
    async with await staying as env:
        assert (await env.reset()).observation.total == 0


async def until(condition):
    """Return when the server has got so far."""
    async with asyncio.timeout(5):
        while not condition():  # noqa: ASYNC110  the server has no event for a test to wait on
            await asyncio.sleep(0.01)


def test_ready_says_whether_new_sessions_are_opened(serving):
    app = create_app(CountingEnvironment)
    url = serving(app)
    assert httpx.get(f"{url}/ready").json()["ready"]
    app.state.sessions.is_draining = True

    assert httpx.get(f"{url}/ready").status_code == 503
    with pytest.raises(CapacityReached, match="stopping"):
        CountEnv(url).reset()


@pytest.fixture
def locked(serving):
    return serving(create_app(CountingEnvironment, config=ServerConfig(token="s3cret")))


@pytest.mark.parametrize("headers", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "s3"}])
def test_without_the_token_nothing_but_health_is_served(locked, headers):
    assert httpx.post(f"{locked}/reset", headers=headers).status_code == 401
    assert httpx.get(f"{locked}/health", headers=headers).status_code == 200
    with pytest.raises(Unauthorized, match="wants its token"):
        CountEnv(locked, headers=headers).reset()


async def test_an_asynchronous_client_without_the_token_is_told_so_and_the_server_logs_no_error(locked, caplog):
    with pytest.raises(Unauthorized, match="wants its token"):
        await CountEnv(locked)
    async with httpx.AsyncClient() as http:
        await http.get(f"{locked}/health")  # the server has done with the refused connection

    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


@pytest.mark.parametrize("is_async", [False, True])
async def test_a_token_that_is_refused_on_the_way_back_is_told_at_once(serving, is_async):
    first, second = (serving(create_app(CountingEnvironment, config=ServerConfig(token=token))) for token in "ab")
    proxy = CuttingProxy(first)
    env = CountEnv(proxy.url, headers={"Authorization": "Bearer a"})
    if is_async:
        await env
    await env.reset()
    proxy._target = ("127.0.0.1", int(second.rsplit(":", 1)[1]))
    proxy.cut()
    with pytest.raises(Unauthorized, match="wants its token"):
        await env.step(CountAction(amount=1))
    await env.close()
    proxy.close()


def test_with_the_token_both_transports_play(locked):
    headers = {"Authorization": "Bearer s3cret"}
    with CountEnv(locked, headers=headers) as env, HTTPEnvClient(locked, headers=headers) as plain:
        assert env.reset().observation.total == 0
        plain._message_classes = (CountAction, CountObservation, CountState)
        assert plain.reset().observation.total == 0


def test_a_web_page_of_another_origin_may_neither_call_nor_connect(serving):
    url = serving(create_app(CountingEnvironment))
    evil = {"Origin": "http://evil.example"}
    assert httpx.post(f"{url}/reset", headers=evil).status_code == 403
    with pytest.raises(InvalidStatus):
        connect(url.replace("http", "ws") + "/ws", additional_headers=evil)
    assert httpx.post(f"{url}/reset", headers={"Origin": url}).status_code == 200


def test_an_allowed_origin_may(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(allowed_origins=("http://good.example",))))
    response = httpx.post(f"{url}/reset", headers={"Origin": "http://good.example"})
    assert response.headers["access-control-allow-origin"] == "http://good.example"


def test_a_message_above_the_limit_is_named_and_the_session_lives(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_message_bytes=10_000)))
    with CountEnv(url) as env:
        env.reset()
        with pytest.raises(MessageTooBig, match="limit of 10000"):
            env.step(CountAction(amount=1, mischief="x" * 20_000))

        assert env.step(CountAction(amount=1)).observation.total == 1
    body = {"action": {"amount": 1, "mischief": "x" * 20_000}}
    assert httpx.post(f"{url}/step", json=body).status_code == 413


@pytest.mark.parametrize("environment", [SavingEnvironment, ProcessEnvironment])
def test_a_saved_episode_is_restored_with_its_random_numbers(serving, environment):
    with CountEnv(serving(create_app(environment))) as env:
        env.reset(seed=1)
        env.step(CountAction(amount=3))
        token = env.save()
        first = [env.step(CountAction(amount=1)).observation for _ in range(3)]
        env.restore(token)

        assert [env.step(CountAction(amount=1)).observation for _ in range(3)] == first


def test_forks_go_their_own_ways_from_one_start(serving):
    with CountEnv(serving(create_app(SavingEnvironment))) as env:
        env.reset(seed=1, start=2)
        branches = env.fork(3)
        totals = [branch.step(CountAction(amount=n)).observation for n, branch in enumerate(branches)]

        assert [seen.total for seen in totals] == [2, 3, 4]
        assert len({seen.draw for seen in totals}) == 1
        assert env.state().total == 2
        for branch in branches:
            branch.close()


async def test_forks_of_an_asynchronous_client_are_asynchronous(serving):
    async with CountEnv(serving(create_app(SavingEnvironment))) as env:
        await env.reset(start=5)
        (branch,) = await env.fork(1)
        assert (await branch.state()).total == 5
        await branch.close()


def test_an_environment_that_cannot_be_saved_says_so(serving):
    with CountEnv(serving(create_app(CountingEnvironment))) as env:
        env.reset()
        with pytest.raises(NotSupported, match="save_state"):
            env.save()


def test_a_token_that_the_server_did_not_give_is_refused(serving):
    with CountEnv(serving(create_app(SavingEnvironment))) as env:
        env.reset()
        with pytest.raises(SessionFault, match="Unknown snapshot token"):
            env.restore("made up")
        assert env.state().total == 0


async def test_an_asynchronous_client_outlives_a_message_above_the_limit(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_message_bytes=10_000)))
    async with CountEnv(url) as env:
        await env.reset()
        with pytest.raises(MessageTooBig):
            await env.step(CountAction(amount=1, mischief="x" * 20_000))

        assert (await env.step(CountAction(amount=1))).observation.total == 1


def test_a_reset_that_is_refused_leaves_no_session_behind(serving):
    app = create_app(CountingEnvironment)
    url = serving(app)
    response = httpx.post(f"{url}/reset", json={"strat": 1}, headers={"X-Session-Id": "new"})

    assert (response.status_code, len(app.state.sessions)) == (422, 0)


def test_a_place_is_not_lost_when_a_session_cannot_be_recorded(serving, tmp_path):
    (tmp_path / "file").touch()
    app = create_app(CountingEnvironment, config=ServerConfig(max_sessions=1, record_dir=tmp_path / "file"))
    url = serving(app)
    for _ in range(2):
        assert httpx.post(f"{url}/reset").status_code == 500
    assert httpx.get(f"{url}/ready").json()["sessions"] == 0


async def test_a_refused_asynchronous_client_may_try_again(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_sessions=1)))
    first = await CountEnv(url)
    await first.reset()
    second = CountEnv(url)
    with pytest.raises(CapacityReached):
        async with second:
            await second.reset()
    await first.close()

    async with second:
        assert (await second.reset()).observation.total == 0


def test_a_branch_that_was_closed_opens_a_new_session(serving):
    with CountEnv(serving(create_app(SavingEnvironment))) as env:
        env.reset(start=2)
        (branch,) = env.fork(1)
        assert branch.state().total == 2
        branch.close()
        assert branch.reset().observation.total == 0
        branch.close()


def test_a_body_without_a_length_is_limited_too(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_message_bytes=10_000)))
    httpx.post(f"{url}/reset")
    chunks = (part for part in (b'{"action": {"amount": 1, "mischief": "', b"x" * 20_000, b'"}}'))

    assert httpx.post(f"{url}/step", content=chunks).status_code == 413


def test_a_preflight_of_an_allowed_page_needs_no_token(serving):
    config = ServerConfig(token="s3cret", allowed_origins=("http://good.example",))
    asked = {"Origin": "http://good.example", "Access-Control-Request-Method": "POST"}
    response = httpx.options(f"{serving(create_app(CountingEnvironment, config=config))}/reset", headers=asked)

    assert response.status_code == 200


def test_a_repeated_fork_under_one_id_forks_once(serving):
    app = create_app(SavingEnvironment)
    url = serving(app).replace("http", "ws") + "/ws"
    answers = []
    with connect(url, subprotocols=[SUBPROTOCOL]) as socket:
        socket.recv()
        for message in ('{"type": "reset", "id": "a"}', *['{"type": "fork", "id": "b", "data": {"count": 2}}'] * 2):
            socket.send(message)
            answers.append(socket.recv())

        assert answers[1] == answers[2]
        assert len(app.state.sessions) == 3


def test_a_stuck_step_does_not_keep_a_server_from_ending():
    server = LocalServer("tests.core.counting_env", ["--step-timeout-s", "0.5"]).start()
    with CountEnv(server.base_url) as env:
        env.reset()
        with pytest.raises(TimeLimitExceeded):
            env.step(CountAction(amount=1, mischief="forever"))
    os.kill(server.pid, signal.SIGTERM)
    assert server._process.wait(15) == 0
    server.stop()


@pytest.mark.parametrize(
    ("host", "status"), [("127.0.0.1:8000", 200), ("localhost:8000", 200), ("[::1]:8000", 200), ("evil.example", 403)]
)
def test_without_a_token_only_an_address_counts_as_the_servers_own_page(serving, host, status):
    url = serving(create_app(CountingEnvironment))
    headers = {"Host": host, "Origin": f"http://{host}"}
    assert httpx.post(f"{url}/reset", headers=headers).status_code == status


@pytest.mark.parametrize(
    ("host", "origin"),
    [(b"[", b"http://["), (b"\xff", b"http://x"), (b"\xff", b"http://\xff"), (b"[v1.x]", b"http://[v1.x]")],
)
def test_a_page_of_a_host_that_is_none_is_refused(serving, host, origin):
    url = serving(create_app(CountingEnvironment))
    with socket.create_connection(("127.0.0.1", int(url.rpartition(":")[2]))) as connection:
        connection.sendall(b"GET /health HTTP/1.1\r\nHost: %b\r\nOrigin: %b\r\n\r\n" % (host, origin))
        assert connection.recv(1000).startswith(b"HTTP/1.1 403 ")


def test_with_a_token_its_own_page_may_have_any_name(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(token="secret")))
    headers = {"Host": "space.example", "Origin": "https://space.example", "Authorization": "Bearer secret"}
    assert httpx.post(f"{url}/reset", headers=headers).status_code == 200


def test_instances_that_disturb_each_other_may_be_many_in_processes_of_their_own():
    class Lonely(CountingEnvironment):
        SUPPORTS_CONCURRENT_SESSIONS = False

    assert HTTPEnvServer(Lonely).max_concurrent_envs == 1
    assert HTTPEnvServer(Lonely, config=ServerConfig(execution="process", max_sessions=7)).max_concurrent_envs == 7
