"""What authors do by mistake costs their own episode at most, and is said; it never reaches another's."""

import asyncio
import os
import time

import httpx
import pytest

from openenv.core import EnvClient, State
from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.declaration import declare
from openenv.core.env_server.worker import Nursery
from openenv.core.errors import EnvironmentFault, FactoryFault, TimeLimitExceeded
from tests.core.awkward_envs import Counter, Do, Drawing, Exits, Global, OneThread, Seen, Starts, Together


class CounterEnv(EnvClient[Do, Seen, State]):
    """Plays any of them."""


def do(env, what="count"):
    return env.step(Do(what=what)).observation


def until(condition, timeout_s=5.0):
    given_up = time.monotonic() + timeout_s
    while not condition() and time.monotonic() < given_up:
        time.sleep(0.02)
    return condition()


def test_a_step_that_outlived_its_limit_never_reaches_the_next_episode_of_a_ready_instance(serving):
    url = serving(create_app(Counter(), config=ServerConfig(step_timeout_s=0.4, grace_s=0)))
    with CounterEnv(url) as env:
        env.reset()
        with pytest.raises(TimeLimitExceeded):
            do(env, "slow")
        with pytest.raises(TimeLimitExceeded, match="still runs"):
            env.reset()
    with pytest.raises(FactoryFault, match="still runs"), CounterEnv(url) as early:
        early.reset()
    time.sleep(1.2)
    with CounterEnv(url) as env:
        env.reset()
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
    url = serving(create_app(lambda: shared))
    with CounterEnv(url) as env:
        env.reset()
        do(env)
        with pytest.raises(FactoryFault, match="another session plays"):
            CounterEnv(url).reset()
        assert do(env).n == 2
    with CounterEnv(url) as later:
        later.reset()
        assert do(later).n == 1


def test_asking_what_an_environment_is_does_not_disturb_an_episode(serving):
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
    with CounterEnv(url, message_timeout_s=10) as env:
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
    app = create_app(Counter, config=ServerConfig(grace_s=0.3))
    with CounterEnv(serving(app)) as env:
        env.reset()
        do(env)
        first, second = env.fork(2)
        time.sleep(0.8)
        assert do(first).n == 1002
        first.close()
    assert until(lambda: len(app.state.sessions) == 0)
    second.close()


def test_an_environment_that_exits_when_it_is_closed_takes_nobody_with_it(serving):
    url = serving(create_app(Exits))
    with CounterEnv(url) as env:
        env.reset()
    with CounterEnv(url) as env:
        env.reset()
        assert do(env).n == 1


def test_a_hung_step_does_not_keep_the_one_thread_of_all_sessions_for_ever(serving):
    url = serving(create_app(OneThread, config=ServerConfig(step_timeout_s=0.4, reset_timeout_s=2)))
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
        assert until(lambda: not is_running(started))


def is_running(pid):
    """Whether a process is there and no zombie."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


async def test_a_fork_that_nobody_waits_for_any_more_mixes_up_no_replies():
    nursery = Nursery(declare(Counter))
    pids = []
    try:
        for _ in range(10):
            cancelled = asyncio.ensure_future(nursery.fork())
            kept = asyncio.ensure_future(nursery.fork())
            await asyncio.sleep(0)
            cancelled.cancel()
            pid, connection = await kept
            pids.append(pid)
            connection.close()
            assert await nursery.fate(pid) != "unknown"
    finally:
        await nursery.stop()
    assert len(set(pids)) == 10


async def test_asynchronous_environments_share_one_loop_in_which_their_tasks_go_on(serving):
    url = serving(create_app(Together))
    async with CounterEnv(url) as first, CounterEnv(url) as second:
        await asyncio.gather(first.reset(), second.reset())
        await asyncio.gather(*(env.step(Do()) for env in (first, second) for _ in range(3)))
        before = (await first.step(Do())).observation.n
        await asyncio.sleep(0.3)
        assert (await first.step(Do())).observation.n - before > 10
