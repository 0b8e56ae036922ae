"""Code that never returns, crashes or exits: its session raises and can be reset; other sessions go on."""

import multiprocessing
import os
import signal
import time
from collections.abc import Iterator

import pytest

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.errors import EnvironmentFault, FactoryFault, TimeLimitExceeded, WorkerCrashed
from openenv.hosting.local_process import LocalServer
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment, CountObservation, ProcessEnvironment

pytestmark = pytest.mark.process


@pytest.fixture(
    params=[
        "CountingEnvironment",
        "InlineEnvironment",
        "ProcessEnvironment",
        "AsyncEnvironment",
        "InlineAsyncEnvironment",
    ]
)
def url(request) -> Iterator[str]:
    """A server that allows a second for a step; environments in a thread, in the event loop, in processes, and with
    coroutines that block."""
    with LocalServer("tests.core.counting_env", ["--serve", request.param, "--step-timeout-s", "1"]) as server:
        yield server.base_url


def test_a_step_that_outlives_its_limit_is_an_error_and_the_session_can_be_reset(url):
    with CountEnv(url) as env, CountEnv(url) as other:
        other.reset()
        env.reset()
        with pytest.raises(TimeLimitExceeded, match="longer than its limit"):
            env.step(CountAction(amount=1, mischief="forever"))
        with pytest.raises(TimeLimitExceeded, match="The episode is gone"):
            env.step(CountAction(amount=1))

        assert env.reset(start=3).observation.total == 3
        assert env.step(CountAction(amount=1)).observation.total == 4
        assert other.step(CountAction(amount=1)).observation.total == 1


def test_a_client_may_ask_for_less_time(serving):
    with CountEnv(serving(create_app(CountingEnvironment))) as env:
        env.reset()
        began = time.monotonic()
        with pytest.raises(TimeLimitExceeded, match=r"limit of 0\.1 s"):
            env.step(CountAction(amount=1, mischief="sleep"), timeout_s=0.1)

        assert time.monotonic() - began < 0.45  # the step sleeps for half a second


@pytest.fixture(scope="module")
def process_url(module_serving) -> str:
    return module_serving(create_app(ProcessEnvironment))


@pytest.mark.parametrize(("mischief", "fate"), [("exit", "exit code 3"), ("segfault", "signal SIGSEGV")])
def test_a_worker_that_dies_ends_its_session_s_episode_alone(process_url, mischief, fate):
    with CountEnv(process_url) as env, CountEnv(process_url) as other:
        env.reset()
        other.reset()
        with pytest.raises(WorkerCrashed, match=fate):
            env.step(CountAction(amount=1, mischief=mischief))

        assert other.step(CountAction(amount=2)).observation.total == 2
        assert env.reset().observation.total == 0
        assert env.step(CountAction(amount=1)).observation.total == 1


@pytest.mark.parametrize("environment", [CountingEnvironment, ProcessEnvironment])
def test_an_environment_that_calls_sys_exit_ends_no_other_session(serving, environment):
    with CountEnv(serving(create_app(environment))) as env:
        env.reset()
        with pytest.raises(EnvironmentFault, match=r"step\(\) called sys.exit\('enough'\)"):
            env.step(CountAction(amount=1, mischief="sys.exit"))

        assert env.step(CountAction(amount=1)).observation.total == 1


def test_a_worker_validates_and_reports_as_any_other(process_url):
    with CountEnv(process_url) as env:
        env.reset(seed=1)
        with pytest.raises(Exception, match="thirteen is unlucky"):
            env.step(CountAction.model_construct(amount=13, mischief="", metadata={}))
        assert env.step(CountAction(amount=10)).done


def test_a_factory_that_cannot_be_sent_to_a_worker_is_an_error_with_the_remedy(serving):
    url = serving(
        create_app(
            lambda: CountingEnvironment(), CountAction, CountObservation, config=ServerConfig(execution="process")
        )
    )
    with pytest.raises(FactoryFault, match="serve a class"):
        CountEnv(url).reset()


def test_the_operator_chooses_where_environments_run(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(execution="process")))
    with CountEnv(url) as env:
        env.reset()
        with pytest.raises(WorkerCrashed):
            env.step(CountAction(amount=1, mischief="exit"))


def test_a_fork_server_that_is_killed_is_replaced(serving):
    others = multiprocessing.active_children()
    url = serving(create_app(ProcessEnvironment))
    with CountEnv(url) as env:
        env.reset()
        (fork_server,) = (child for child in multiprocessing.active_children() if child not in others)
        os.kill(fork_server.pid, signal.SIGKILL)
        with pytest.raises((FactoryFault, WorkerCrashed)):
            CountEnv(url).reset()
    with CountEnv(url) as env:
        assert env.reset().observation.total == 0


@pytest.mark.finding("an environment that uses signal.alarm leaves time limits in force")
def test_an_environment_that_uses_the_alarm_keeps_it_and_the_servers_time_limits():
    arguments = ["--serve", "Alarming", "--step-timeout-s", "2"]
    with (
        LocalServer("tests.core.counting_env", arguments) as server,
        CountEnv(server.base_url, message_timeout_s=15) as env,
    ):
        env.reset()
        assert env.step(CountAction(amount=1, mischief="alarm")).observation.total == -1
        with pytest.raises(TimeLimitExceeded):
            env.step(CountAction(amount=1, mischief="forever"))
        env.reset()

        assert env.step(CountAction(amount=1)).observation.total == 1
