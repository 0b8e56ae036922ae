"""New sessions go to the least loaded worker with room, and limits hold for all workers of a server together."""

import asyncio
import threading
from collections import Counter
from dataclasses import dataclass

import httpx
import numpy as np
import pytest

from openenv.core.errors import CapacityReached, SessionFault
from openenv.core.session_pool import SessionPool
from openenv.hosting.workers.worker_pool import WorkerPool
from tests.core.counting_env import CountAction, CountEnv
from tests.core.env_server.probes import num_queued, num_sessions, wait_until
from tests.hosting.workers.two_workers import clients, pid_of, two_workers

pytestmark = pytest.mark.process


def test_every_new_session_goes_to_the_worker_with_the_fewest(url):
    with clients(url, 4) as envs:
        shares = Counter(map(pid_of, envs))
        (first, _), (second, _) = shares.most_common()
        assert set(shares.values()) == {2}

        num_open = num_sessions(url)  # those of earlier tests included
        for env in envs:
            if pid_of(env) == first:
                env.close()
        wait_until(lambda: num_sessions(url) <= num_open - 2)
        with clients(url, 2) as more:
            assert {pid_of(env) for env in more} == {first} != {second}


async def test_sessions_opened_at_one_moment_even_out_an_uneven_load(url):
    with clients(url, 8) as envs:
        first = pid_of(envs[0])
        num_open = num_sessions(url)
        for env in envs:
            if pid_of(env) != first:
                env.close()
        wait_until(lambda: num_sessions(url) <= num_open - 4)
        async with SessionPool(CountEnv, url, 8) as pool:
            await pool.reset({index: {} for index in range(8)})
            steps = await pool.step({index: CountAction(amount=0, mischief="pid") for index in range(8)})

        assert sum(result.observation.payload == first for result in steps.values()) == 2


def test_vectors_with_several_sessions_use_several_workers(url):
    with CountEnv(url).vector(4, num_sessions=2, autoreset="disabled") as envs:
        envs.reset(seed=1)
        infos = envs.step({"amount": np.zeros(4, dtype=int), "mischief": ["pid"] * 4})[4]
        assert len(set(infos["payload"])) == 2


async def test_environments_of_a_pool_that_share_sessions_are_spread_over_the_workers():
    with two_workers("--serve", "InlineEnvironment") as server:
        async with SessionPool(CountEnv, server.base_url, 5) as pool:
            await pool.reset({index: {"start": -100 * index} for index in range(5)})
            results = await pool.step({index: CountAction(amount=index, mischief="pid") for index in (4, 1, 0, 3)})
            assert {i: result.observation.total for i, result in results.items()} == {0: 0, 1: -99, 3: -297, 4: -396}
            by_worker = Counter(result.observation.payload for result in results.values())
            assert sorted(by_worker.values()) == [2, 2]


def test_a_snapshot_is_restored_in_the_worker_that_took_it(url):
    with clients(url, 3) as (saved, other, third):
        assert pid_of(saved) == pid_of(third) != pid_of(other)
        saved.step(CountAction(amount=3))
        token = saved.save()
        draws = [saved.step(CountAction(amount=1)).observation.draw]
        third.restore(token)

        assert [third.step(CountAction(amount=1)).observation.draw] == draws
        assert third.state().total == 4
        with pytest.raises(SessionFault, match="Unknown snapshot token"):
            other.restore(token)


def test_branches_of_a_session_are_found_by_their_ids(url):
    with clients(url, 2) as envs:
        for env in envs:
            total = env.step(CountAction(amount=2)).observation.total
            for branch in env.fork(3):
                with branch:
                    assert branch.step(CountAction(amount=1)).observation.total == total + 1


def test_a_queued_caller_gets_the_next_free_place_of_either_worker():
    with two_workers("--max-sessions", "2", "--max-queue", "1") as server:
        for closing_worker in ("w0-", "w1-"):
            with clients(server.base_url, 2) as envs:
                (closing,) = (env for env in envs if env.session_id.startswith(closing_worker))
                waiting = threading.Thread(target=lambda: reset_and_close(CountEnv(server.base_url)))
                waiting.start()
                wait_until(lambda: num_queued(server.base_url) == 1)
                with pytest.raises(CapacityReached, match="2/2 sessions active"):
                    CountEnv(server.base_url).reset()

                closing.close()
                waiting.join(10)
                assert not waiting.is_alive()
            wait_until(lambda: num_sessions(server.base_url) == 0)


async def test_a_client_that_leaves_the_queue_leaves_its_place_in_it_to_others():
    with two_workers("--max-sessions", "2", "--max-queue", "1") as server:
        with clients(server.base_url, 2):
            leaving = asyncio.ensure_future(CountEnv(server.base_url).__aenter__())
            await asyncio.to_thread(wait_until, lambda: num_queued(server.base_url) == 1)
            leaving.cancel()
            await asyncio.to_thread(wait_until, lambda: num_queued(server.base_url) == 0)
            staying = asyncio.ensure_future(CountEnv(server.base_url).__aenter__())
            await asyncio.to_thread(wait_until, lambda: num_queued(server.base_url) == 1)
        async with await staying as env:
            assert (await env.reset()).observation.total == 0


def test_one_http_connection_opens_as_many_sessions_as_the_server_allows():
    with two_workers("--max-sessions", "16") as server, httpx.Client(base_url=server.base_url) as http:
        opened = []
        for _ in range(16):
            response = http.post("/reset", headers={"X-Session-Id": "new"})
            if response.status_code == 503:  # the other worker's last place
                break
            opened.append(response.headers["x-session-id"])
            num_sessions(server.base_url)

        assert len(opened) >= 15
        assert len({session_id.partition("-")[0] for session_id in opened}) == 1


def test_no_more_workers_start_than_sessions_are_allowed():
    with two_workers("--max-sessions", "1", "--log-level", "warning") as server, clients(server.base_url, 1):
        with pytest.raises(CapacityReached, match="1/1 sessions active"):
            CountEnv(server.base_url).reset()
        assert "workers=2: starting 1, one for each session" in server.output()


@dataclass
class ImmediateWorker:
    """A worker that gives requested slots back at once."""

    number: int
    load: int
    num_slots: int
    pool: WorkerPool
    is_ready: bool = True
    awaits_slots: bool = False
    returned_slots: int = 0
    num_requests: int = 0

    @property
    def num_free(self) -> int:
        return self.num_slots - self.load

    def add_slots(self, number: int) -> None:
        self.num_slots += number

    def request_slots(self, number: int) -> None:
        self.num_requests += 1
        assert self.num_requests < 3, "slots move to and fro"
        self.num_slots -= number
        self.returned_slots += number
        self.pool.on_load(self)


def test_an_odd_free_slot_moves_to_the_worker_with_less_to_do_and_stays_there():
    pool = WorkerPool(2)
    busy = ImmediateWorker(0, load=1, num_slots=2, pool=pool)
    idle = ImmediateWorker(1, load=0, num_slots=0, pool=pool)
    for worker in (busy, idle):
        pool.add(worker)
    pool.on_load(idle)

    assert (busy.num_slots, idle.num_slots) == (1, 1)


def reset_and_close(env: CountEnv) -> None:
    env.reset()
    env.close()
