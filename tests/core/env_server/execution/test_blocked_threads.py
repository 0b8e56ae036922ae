"""A call that hangs holds up nothing for longer than its limit, whether its session waits for it or has left."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
from websockets.sync.client import connect

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.errors import TimeLimitExceeded
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment
from tests.core.env_server.probes import wait_until

pytestmark = pytest.mark.finding("a step that blocks stops no other session, and an undeclared execution is fast")


class Gated(CountingEnvironment):
    """Hangs in its constructor or its step when a test asks for it, until the test ends."""

    hangs_in_constructor = False
    is_hanging = threading.Event()
    may_go_on = threading.Event()
    num_open = 0

    def __init__(self) -> None:
        super().__init__()
        type(self).num_open += 1
        if self.hangs_in_constructor:
            type(self).hangs_in_constructor = False
            self._hang()

    def step(self, action: CountAction, timeout_s=None, **kwargs):
        if action.mischief == "hang":
            self._hang()
        return super().step(CountAction(amount=action.amount))

    def close(self) -> None:
        type(self).num_open -= 1

    def _hang(self) -> None:
        self.is_hanging.set()
        assert self.may_go_on.wait(60)


class OneThread(Gated):
    """Its library allows one thread."""

    REQUIRES_SINGLE_THREAD_EXECUTOR = True


class Coroutines(CountingEnvironment):
    """Blocks or awaits in the loop that asynchronous environments share."""

    async def reset_async(self, seed=None, episode_id=None, **kwargs):
        return self.reset(seed, episode_id)

    async def step_async(self, action: CountAction, timeout_s=None, **kwargs):
        if action.mischief == "block":
            Gated.is_hanging.set()
            assert Gated.may_go_on.wait(60)
        if action.mischief == "await":
            await asyncio.sleep(0.1)
        return self.step(CountAction(amount=action.amount))


@pytest.fixture(autouse=True)
def _gates() -> Iterator[None]:
    Gated.is_hanging.clear()
    Gated.may_go_on.clear()
    OneThread.num_open = 0
    yield
    Gated.may_go_on.set()


def test_a_constructor_that_hangs_after_its_client_has_left_does_not_block_a_single_thread_for_good(serving):
    limits = ServerConfig(step_timeout_s=1, reset_timeout_s=1, max_sessions=2, max_queue=2)
    url = serving(create_app(OneThread, config=limits))
    with CountEnv(url) as env, CountEnv(url) as first:
        env.reset()
        first.reset()
        with connect(f"ws{url[4:]}/ws"):
            wait_until(lambda: "openenv_sessions_waiting 1.0" in httpx.get(f"{url}/metrics").text)
            OneThread.hangs_in_constructor = True
            first.close()
            assert OneThread.is_hanging.wait(30)
        with pytest.raises(TimeLimitExceeded, match="blocked by another session's step"):
            env.step(CountAction(amount=1))

        assert env.reset(start=3).observation.total == 3
        assert env.step(CountAction(amount=1)).observation.total == 4


def test_a_close_that_was_queued_behind_a_step_that_hangs_runs_when_the_step_ends(serving):
    url = serving(create_app(OneThread, config=ServerConfig(step_timeout_s=0.5)))
    with CountEnv(url) as hanging, ThreadPoolExecutor() as pool:
        hanging.reset()
        other = CountEnv(url)
        other.reset()
        step = pool.submit(hanging.step, CountAction(amount=1, mischief="hang"))
        assert OneThread.is_hanging.wait(30)
        other.close()
        with pytest.raises(TimeLimitExceeded):
            step.result(30)
    Gated.may_go_on.set()

    wait_until(lambda: OneThread.num_open == 0)


def test_a_ready_instance_admits_a_client_that_waited_for_it(serving):
    url = serving(create_app(CountingEnvironment(), config=ServerConfig(max_queue=2)))
    for _ in range(5):
        with ThreadPoolExecutor() as pool:
            first, second = CountEnv(url), CountEnv(url)
            first.reset()
            attempt = pool.submit(second.reset, start=2)
            first.step(CountAction(amount=1))
            first.close()
            assert attempt.result(30).observation.total == 2
            second.close()


def test_a_step_beside_one_that_blocks_the_loop_of_coroutines_is_answered(serving):
    url = serving(create_app(Coroutines))
    with CountEnv(url) as blocking, CountEnv(url) as other, ThreadPoolExecutor() as pool:
        blocking.reset()
        other.reset()
        blocked = pool.submit(blocking.step, CountAction(amount=1, mischief="block"), timeout_s=1)
        assert Gated.is_hanging.wait(30)
        beside = pool.submit(other.step, CountAction(amount=1, mischief="await"))
        with pytest.raises(TimeLimitExceeded):
            blocked.result(30)
        Gated.may_go_on.set()
        with pytest.raises(TimeLimitExceeded, match="another session's step has blocked the loop"):
            beside.result(30)

        assert other.reset().observation.total == 0
        assert other.step(CountAction(amount=1, mischief="await")).observation.total == 1
