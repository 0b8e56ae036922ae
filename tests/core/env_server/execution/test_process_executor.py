"""A mistake in an environment costs its own episode at most, and is reported; it never reaches another episode."""

import asyncio
import contextlib
import os
import threading
from typing import Any

import httpx
import pytest

from openenv.core import EnvClient, State
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.execution.fork_server import ForkServer
from openenv.core.env_server.runner.env_spec import resolve_env_spec
from openenv.core.errors import EnvironmentFault, FactoryFault, TimeLimitExceeded, WorkerCrashed
from openenv.core.generic_client import GenericEnvClient
from tests.core.awkward_envs import Counter, Do, Drawing, Exits, Global, OneThread, Seen, Starts, Together
from tests.core.cutting_proxy import CuttingProxy
from tests.core.env_server.probes import is_running, wait_until

pytestmark = pytest.mark.process


class CounterEnv(EnvClient[Do, Seen, State]):
    """Plays any of them."""


def do(env, what="count"):
    return env.step(Do(what=what)).observation


def new_session_once_possible(url):
    """A client whose episode has begun, as soon as the step of an earlier session has ended."""
    env = CounterEnv(url)

    def has_begun():
        with contextlib.suppress(FactoryFault):
            env.reset()
            return True
        return False

    wait_until(has_begun)
    return env


def test_a_step_that_outlived_its_limit_never_reaches_the_next_episode_of_a_ready_instance(serving):
    url = serving(create_app(Counter(), config=ServerConfig(step_timeout_s=0.4, reconnect_grace_s=0)))
    with CounterEnv(url) as env:
        env.reset()
        with pytest.raises(TimeLimitExceeded):
            do(env, "slow")
        with pytest.raises(TimeLimitExceeded, match="still runs"):
            env.reset()
    with pytest.raises(FactoryFault, match="still runs"), CounterEnv(url) as early:
        early.reset()
    with new_session_once_possible(url) as env:
        assert [do(env).n for _ in range(3)] == [1, 2, 3]


def test_a_restore_that_outlives_its_limit_ends_the_episode(serving):
    with CounterEnv(serving(create_app(Counter, config=ServerConfig(step_timeout_s=0.4)))) as env:
        env.reset()
        token = env.save()
        with pytest.raises(TimeLimitExceeded):
            env.restore(token)
        with pytest.raises(TimeLimitExceeded, match="The episode is gone"):
            do(env)
        env.reset()
        assert do(env).n == 1


def test_a_factory_that_returns_one_object_twice_is_refused_its_second_session(serving):
    shared = Counter()
    url = serving(create_app(lambda: shared, Do, Seen))
    with CounterEnv(url) as env:
        env.reset()
        do(env)
        with pytest.raises(FactoryFault, match="another session uses"):
            CounterEnv(url).reset()
        assert do(env).n == 2
    with CounterEnv(url) as later:
        later.reset()
        assert do(later).n == 1


def test_a_request_for_metadata_does_not_disturb_an_episode(serving):
    url = serving(create_app(Global, env_name="global"))
    with CounterEnv(url) as env:
        env.reset()
        seen = [do(env).n for _ in range(2)]
        assert httpx.get(f"{url}/metadata").status_code == 200
        assert httpx.get(f"{url}/global/splits").status_code == 501
        seen.append(do(env).n)
    assert seen == [1, 2, 3]


@pytest.mark.parametrize("what", ["cancelled", "interrupt"])
@pytest.mark.parametrize("execution", ["thread", "process"])
def test_whatever_a_step_raises_is_a_fault_of_the_environment(serving, what, execution):
    url = serving(create_app(Counter, config=ServerConfig(execution=execution)))
    with CounterEnv(url, message_timeout_s=20) as env:
        env.reset()
        with pytest.raises(EnvironmentFault):
            do(env, what)
        assert env.reset().observation.n == 0
    response = httpx.post(f"{url}/step", json={"action": {"what": what}}, timeout=10)
    assert response.json()["code"] == "EXECUTION_ERROR"


def test_workers_do_not_draw_the_same_numbers(serving):
    url = serving(create_app(Drawing))
    drawn = set()
    for _ in range(4):
        with CounterEnv(url) as env:
            env.reset()
            drawn.add(do(env, "draw").seen)
    assert len(drawn) == 4


def test_a_request_id_means_one_request_of_its_verb(serving):
    url = serving(create_app(Counter))
    with httpx.Client(base_url=url) as curl:
        curl.post("/reset", json={"request_id": "1"})
        step = {"action": {}, "request_id": "1"}
        assert [curl.post("/step", json=step).json()["observation"]["n"] for _ in range(2)] == [1, 1]


def test_a_session_whose_step_runs_is_not_idle(serving):
    url = serving(create_app(Counter, config=ServerConfig(idle_timeout_s=0.5)))
    with CounterEnv(url) as env:
        env.reset()
        assert do(env, "slow").n == 101
        assert do(env).n == 102


def test_a_branch_waits_for_its_turn_as_long_as_its_origin_lives(serving):
    app = create_app(Counter, config=ServerConfig(reconnect_grace_s=0.3))
    url = serving(app)
    proxy = CuttingProxy(url)
    with CounterEnv(url) as env, CounterEnv(proxy.url) as disconnected:
        env.reset()
        do(env)
        first, second = env.fork(2)
        disconnected.reset()
        proxy.close()
        wait_until(lambda: len(app.state.sessions) == 3)  # one that disconnected after the fork has ended
        assert do(first).n == 1002
        first.close()
    wait_until(lambda: len(app.state.sessions) == 0)
    second.close()


def test_an_environment_that_exits_when_it_is_closed_ends_no_other_session(serving):
    url = serving(create_app(Exits))
    with CounterEnv(url) as env:
        env.reset()
    with CounterEnv(url) as env:
        env.reset()
        assert do(env).n == 1


def test_a_hung_step_does_not_keep_the_one_thread_of_all_sessions_for_ever(serving):
    url = serving(create_app(OneThread, config=ServerConfig(step_timeout_s=0.2, reset_timeout_s=2)))
    with CounterEnv(url) as env, CounterEnv(url) as other:
        env.reset()
        other.reset()
        with pytest.raises(TimeLimitExceeded):
            do(env, "hang")
        with pytest.raises(TimeLimitExceeded, match="another session"):
            do(other)
        other.reset()
        assert do(other).n == 1
        with CounterEnv(url) as third:
            third.reset()
            assert do(third).n == 1


def test_what_a_killed_worker_had_started_ends_with_it(serving):
    url = serving(create_app(Starts, config=ServerConfig(step_timeout_s=0.4)))
    with CounterEnv(url) as env:
        started = env.reset().observation.seen
        assert os.path.exists(f"/proc/{started}")
        with pytest.raises(TimeLimitExceeded):
            do(env)
        wait_until(lambda: not is_running(started))


async def test_after_a_cancelled_fork_the_next_one_waits_for_the_reply_to_the_first(monkeypatch):
    fork_server = ForkServer(resolve_env_spec(Counter))
    waiting = threading.Lock()
    exchange, replies, overlaps = ForkServer._exchange, [], []

    def watched(self, control, message, fds):
        is_alone = waiting.acquire(blocking=False)
        overlaps.extend([] if is_alone else [message])
        try:
            replies.append(exchange(self, control, message, fds))
            return replies[-1]
        finally:
            if is_alone:
                waiting.release()

    monkeypatch.setattr(ForkServer, "_exchange", watched)
    try:
        _, connection = await fork_server.fork()
        connection.close()
        for _ in range(10):
            cancelled = asyncio.ensure_future(fork_server.fork())
            kept = asyncio.ensure_future(fork_server.fork())
            await asyncio.sleep(0)
            cancelled.cancel()
            pid, connection = await kept
            connection.close()
            assert replies[-1] == b"%d" % pid
    finally:
        await fork_server.stop()
    assert overlaps == []
    assert len(set(replies)) == 21


async def test_asynchronous_environments_share_one_loop_in_which_their_tasks_go_on(serving):
    url = serving(create_app(Together))
    async with CounterEnv(url) as first, CounterEnv(url) as second:
        await asyncio.gather(first.reset(), second.reset())
        await asyncio.gather(*(env.step(Do()) for env in (first, second) for _ in range(3)))
        before = (await first.step(Do())).observation.n
        async with asyncio.timeout(10):
            while (await first.step(Do())).observation.n - before <= 10:
                pass


class Forks(Counter):
    """Forks in its steps, and the child returns from them, too."""

    execution = "process"

    def step(self, action: Do, timeout_s: float | None = None, **kwargs: Any) -> Seen:
        if action.what == "fork" and os.fork() == 0:
            self.n += 1000
        return super().step(action)


class WritesEverywhere(Counter):
    """Writes into every file that its process has open."""

    execution = "process"

    def step(self, action: Do, timeout_s: float | None = None, **kwargs: Any) -> Seen:
        if action.what == "write":
            for fd in range(3, 256):
                with contextlib.suppress(OSError):
                    os.write(fd, bytes(64))
        return super().step(action)


@pytest.mark.finding("an environment that forks in its process never answers for another request")
def test_a_process_that_an_environment_forks_never_answers_for_it(serving):
    with GenericEnvClient(serving(create_app(Forks))) as env:
        env.reset()
        totals = [env.step({"what": what}).observation["n"] for what in ("", "fork", "fork", "", "fork", "")]

        assert totals == [1, 2, 3, 4, 5, 6]
        assert env.state()["step_count"] == 6


@pytest.mark.finding("an environment that forks in its process never answers for another request")
def test_what_an_environment_writes_into_its_socket_is_no_response(serving):
    with GenericEnvClient(serving(create_app(WritesEverywhere))) as env:
        env.reset()
        with pytest.raises(WorkerCrashed, match="wrote into the server's socket"):
            env.step({"what": "write"})
        env.reset()

        assert env.step({}).observation["n"] == 1
