"""A full server: the queue for sessions, and the place of a session that has ended."""

import asyncio
import time
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.http_server import HTTPEnvServer
from openenv.core.errors import CapacityReached
from tests.core.counting_env import CountEnv, CountingEnvironment
from tests.core.env_server.probes import num_queued, num_sessions, wait_until


def test_a_queued_client_gets_the_next_free_session(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_sessions=1, max_queue=4)))
    first = CountEnv(url)
    first.reset()
    with ThreadPoolExecutor() as threads:
        second = threads.submit(CountEnv(url).reset)
        wait_until(lambda: num_queued(url) == 1)
        first.close()

        assert second.result(10).observation.total == 0


async def test_queued_clients_are_served_in_the_order_of_their_arrival(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_sessions=1, max_queue=4)))
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
            await asyncio.to_thread(wait_until, lambda name=name: num_queued(url) == name + 1)
    await asyncio.gather(*tasks)

    assert served == [0, 1, 2]


async def test_a_client_waits_in_the_queue_longer_than_its_connect_timeout_and_one_that_leaves_makes_room(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_sessions=1, max_queue=4)))
    async with CountEnv(url, connect_timeout_s=0.3) as first:
        await first.reset()
        leaving = asyncio.ensure_future(CountEnv(url).__aenter__())
        await asyncio.to_thread(wait_until, lambda: num_queued(url) == 1)
        staying = asyncio.ensure_future(CountEnv(url, connect_timeout_s=0.3).__aenter__())
        await asyncio.to_thread(wait_until, lambda: num_queued(url) == 2)
        leaving.cancel()
        await asyncio.to_thread(wait_until, lambda: num_queued(url) == 1)
        done, _ = await asyncio.wait([staying], timeout=0.5)  # the connect timeout, which must not apply, passes
        assert not done
    async with await staying as env:
        assert (await env.reset()).observation.total == 0


def test_a_full_queue_refuses_at_once_with_the_time_to_retry_after(serving):
    config = ServerConfig(max_sessions=1, max_queue=1, queue_timeout_s=30)
    url = serving(create_app(CountingEnvironment, config=config))
    with ThreadPoolExecutor() as threads:
        with CountEnv(url) as env:
            env.reset()
            queued = threads.submit(httpx.post, f"{url}/reset", timeout=60)
            wait_until(lambda: num_queued(url) == 1)
            refused = httpx.post(f"{url}/reset", headers={"X-Session-Id": "new"})

        assert queued.result().status_code == 200
    assert refused.status_code == 503
    assert refused.headers["retry-after"] == "30"


def test_a_wait_that_is_too_long_is_refused(serving):
    url = serving(
        create_app(CountingEnvironment, config=ServerConfig(max_sessions=1, max_queue=4, queue_timeout_s=0.2))
    )
    with CountEnv(url) as env:
        env.reset()
        with pytest.raises(CapacityReached):
            CountEnv(url).reset()


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


def test_a_place_is_not_lost_when_a_session_cannot_be_recorded(serving, tmp_path):
    (tmp_path / "file").touch()
    app = create_app(CountingEnvironment, config=ServerConfig(max_sessions=1, record_dir=tmp_path / "file"))
    url = serving(app)
    for _ in range(2):
        assert httpx.post(f"{url}/reset").status_code == 500
    assert num_sessions(url) == 0


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


def test_an_environment_for_one_session_allows_many_in_processes_of_their_own():
    class Lonely(CountingEnvironment):
        SUPPORTS_CONCURRENT_SESSIONS = False

    assert HTTPEnvServer(Lonely).max_concurrent_envs == 1
    assert HTTPEnvServer(Lonely, config=ServerConfig(execution="process", max_sessions=7)).max_concurrent_envs == 7
