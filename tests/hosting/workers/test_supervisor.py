"""A worker that dies takes only its own sessions with it, and all workers stop together."""

import os
import signal
import threading

import pytest
from fastapi import FastAPI

from openenv import create_app, serve
from openenv.core.errors import CapacityReached, NotReady, SessionGone
from openenv.hosting.local_process import LocalServer
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment
from tests.core.env_server.probes import exit_code, is_running, wait_until
from tests.hosting.workers.two_workers import clients, pid_of, two_workers

pytestmark = pytest.mark.process


def test_a_worker_that_dies_is_restarted_and_gets_new_sessions_again():
    with two_workers("--max-sessions", "2") as server, clients(server.base_url, 2) as (dying, living):
        dead, alive = pid_of(dying), pid_of(living)
        with pytest.raises(SessionGone):
            dying.step(CountAction(amount=1, mischief="exit"))

        assert living.step(CountAction(amount=1)).observation.total == -99
        wait_until(lambda: "ended (exit code 3) and its 1 sessions with it: restarting" in server.output())
        assert dying.reset().observation.total == 0  # its place is free again
        wait_until(lambda: pid_of_new_session(dying) not in (None, dead, alive), interval_s=0.2)


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGINT, 130)])
def test_a_server_that_is_stopped_finishes_the_steps_of_all_workers_and_exits_as_one_process_does(number, code):
    with two_workers() as server, clients(server.base_url, 2) as envs:
        assert len(set(map(pid_of, envs))) == 2
        threading.Timer(0.15, lambda: os.killpg(server.pid, number)).start()  # as a terminal's Ctrl-C does
        results = []
        steps = [threading.Thread(target=lambda env=env: results.append(slow_step(env))) for env in envs]
        for step in steps:
            step.start()
        for step in steps:
            step.join()

        assert sorted(results) == [-98, 2]
        assert exit_code(server) == code
        assert "Traceback" not in server.output()


def test_a_worker_ignores_sigint_which_the_supervisor_handles():
    with two_workers() as server, clients(server.base_url, 1) as envs:
        pid = pid_of(envs[0])
        for _ in range(2):
            os.kill(pid, signal.SIGINT)
            assert slow_step(envs[0]) > 0
        assert pid_of(envs[0]) == pid


def test_the_workers_of_a_server_that_is_killed_end_with_it():
    with two_workers() as server, clients(server.base_url, 2) as envs:
        pids = [pid_of(env) for env in envs]
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_a_worker_that_cannot_start_ends_the_server_with_the_reason():
    with pytest.raises(NotReady, match="before it served: its log has the reason") as caught:
        LocalServer("tests.core.counting_env", ["--workers", "2", "--serve", "OnlyInOneProcess"]).launch()
    assert "there is another one" in str(caught.value)


@pytest.mark.parametrize(
    ("app", "workers", "words"),
    [
        (create_app(CountingEnvironment), 0, "workers=0: give 1, or as many as the machine has cores"),
        (create_app(CountingEnvironment), 2, "Give serve.. 'MODULE:APP', or a function of a module"),
        (lambda: create_app(CountingEnvironment), 2, "the application cannot be made in another process"),
        (FastAPI, 2, "the application has no session manager"),
    ],
)
def test_workers_that_cannot_run_are_refused_with_the_remedy(app, workers, words):
    with pytest.raises(ValueError, match=words):
        serve(app, port=0, workers=workers)


def slow_step(env: CountEnv) -> int:
    return env.step(CountAction(amount=2, mischief="sleep")).observation.total


def pid_of_new_session(env: CountEnv) -> int | None:
    """The process of a session that ends again, so that its slot may move to another worker before the next call.

    None: a free slot is moving between workers.
    """
    try:
        env.reset()
        return pid_of(env)
    except CapacityReached:
        return None
    finally:
        env.disconnect()
