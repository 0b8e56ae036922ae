"""Environments that declare no execution: threads of their own, or a shared one when their calls are short."""

import asyncio
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager

import pytest

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.execution.env_thread import EnvThread
from openenv.core.env_server.execution.env_threads import NUM_SHORT_CALLS
from openenv.core.errors import EnvironmentFault, TimeLimitExceeded
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment

pytestmark = pytest.mark.finding("a step that blocks stops no other session, and an undeclared execution is fast")


class Threaded(CountingEnvironment):
    """Names the threads that made it and that steps it; waits when a test asks for it."""

    ALLOWS_STEP_AFTER_DONE = True
    is_waiting = threading.Event()
    may_go_on = threading.Event()

    def __init__(self) -> None:
        super().__init__()
        self._made_in = threading.get_ident()

    def step(self, action: CountAction, timeout_s=None, **kwargs):
        if action.mischief == "wait":
            self.is_waiting.set()
            assert self.may_go_on.wait(30)
        observation = super().step(CountAction(amount=action.amount))
        observation.payload = [self._made_in, threading.get_ident()]
        return observation


def threads_of(env: CountEnv) -> tuple[int, int]:
    """The thread that made an environment, and the one that steps it."""
    made_in, stepped_in = env.step(CountAction(amount=0)).observation.payload
    return made_in, stepped_in


@pytest.fixture
def url(serving) -> Iterator[str]:
    Threaded.is_waiting.clear()
    Threaded.may_go_on.clear()
    yield serving(create_app(Threaded, config=ServerConfig(step_timeout_s=20)))
    Threaded.may_go_on.set()


@contextmanager
def sessions(url: str, count: int) -> Iterator[list[CountEnv]]:
    with ExitStack() as stack:
        envs = [stack.enter_context(CountEnv(url)) for _ in range(count)]
        for env in envs:
            env.reset()
        yield envs


def show_short_calls(url: str) -> None:
    """Play until the server lets new environments share a thread."""
    for _ in range(20):  # a busy machine may hold up a call, which is then a long one
        with sessions(url, 1) as [env]:
            for _ in range(NUM_SHORT_CALLS):
                env.step(CountAction(amount=0))
        with sessions(url, 2) as envs:
            if len({threads_of(env) for env in envs}) == 1:
                return
    pytest.fail("the environments never shared a thread")


def test_the_first_environments_have_threads_of_their_own(url):
    with sessions(url, 3) as envs:
        threads = [threads_of(env) for env in envs]

    assert len(set(threads)) == 3
    assert all(made_in == stepped_in for made_in, stepped_in in threads)


def test_environments_whose_calls_are_short_share_the_thread_that_made_them(url):
    show_short_calls(url)

    with sessions(url, 3) as envs:
        assert len({thread for env in envs for thread in threads_of(env)}) == 1


def test_environments_that_declare_a_thread_share_none(serving):
    class Declared(Threaded):
        execution = "thread"

    url = serving(create_app(Declared))
    with sessions(url, 1) as [env]:
        for _ in range(3 * NUM_SHORT_CALLS):
            env.step(CountAction(amount=0))

    with sessions(url, 3) as envs:
        assert len({threads_of(env) for env in envs}) == 3


def test_a_step_that_blocks_a_shared_thread_stops_no_other_session(url):
    show_short_calls(url)

    with sessions(url, 3) as [blocking, *others], ThreadPoolExecutor() as pool:
        thread, _ = threads_of(blocking)
        blocked = pool.submit(blocking.step, CountAction(amount=2, mischief="wait"))
        assert Threaded.is_waiting.wait(30)
        for env in others:
            assert threads_of(env)[1] != thread
        assert not blocked.done()

        Threaded.may_go_on.set()
        assert blocked.result(30).observation.payload == [thread, thread]
        assert threads_of(blocking) == (thread, thread)


def test_after_a_long_call_new_environments_have_threads_of_their_own(url):
    show_short_calls(url)
    with sessions(url, 1) as [env], ThreadPoolExecutor() as pool:
        long = pool.submit(env.step, CountAction(amount=1, mischief="wait"))
        assert Threaded.is_waiting.wait(30)
        threading.Timer(0.05, Threaded.may_go_on.set).start()
        long.result(30)

    with sessions(url, 3) as envs:
        assert len({threads_of(env) for env in envs}) == 3


def test_a_step_that_outlives_its_limit_in_a_shared_thread_costs_the_others_nothing(url):
    show_short_calls(url)

    with sessions(url, 2) as [blocking, other]:
        with pytest.raises(TimeLimitExceeded):
            blocking.step(CountAction(amount=1, mischief="wait"), timeout_s=0.3)
        assert other.step(CountAction(amount=4)).observation.total == 4
        with pytest.raises(TimeLimitExceeded, match="gone"):
            blocking.step(CountAction(amount=1))

        assert blocking.reset().observation.total == 0
        assert blocking.step(CountAction(amount=3)).observation.total == 3


async def test_an_iterator_that_has_ended_in_a_thread_is_an_error_of_the_environment():
    async with asyncio.timeout(10):
        with pytest.raises(EnvironmentFault, match="StopIteration"):
            await EnvThread().submit("step", 5.0, lambda: next(iter(())))
