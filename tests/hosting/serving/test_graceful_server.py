"""A server that stops finishes the steps that run, opens no session, and exits with 0."""

import asyncio
import logging
import os
import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest
import websockets

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.errors import CapacityReached, SessionLost, TimeLimitExceeded
from openenv.core.net.busy_poll import LoopSpinner
from openenv.hosting.local_process import LocalServer
from openenv.hosting.serving.server import server
from tests.conftest import running
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment
from tests.core.cutting_proxy import CuttingProxy
from tests.core.env_server.probes import exit_code, is_running, wait_until

pytestmark = pytest.mark.process


def is_draining(url: str) -> bool:
    """Whether it answers so. A worker that the supervisor gives a connection as it begins to drain may reset it."""
    try:
        return httpx.get(f"{url}/ready").status_code == 503
    except httpx.ReadError:
        return False


class Blocking(CountingEnvironment):
    """Its step lasts until the test lets it finish."""

    execution = "thread"
    is_stepping = threading.Event()
    may_finish = threading.Event()

    def step(self, action, timeout_s=None, **kwargs):
        self.is_stepping.set()
        assert self.may_finish.wait(30)
        return super().step(action)


def test_a_stopping_server_finishes_steps_but_is_not_ready_and_opens_no_session():
    serving = running(create_app(Blocking))
    url = serving.__enter__()
    assert httpx.get(f"{url}/ready").json()["ready"]
    with ThreadPoolExecutor() as threads, CountEnv(url) as env:
        env.reset()
        step = threads.submit(env.step, CountAction(amount=2))
        assert Blocking.is_stepping.wait(30)
        stopping = threads.submit(serving.__exit__, None, None, None)
        wait_until(lambda: is_draining(url))
        with pytest.raises(CapacityReached, match="stopping"):
            CountEnv(url).reset()
        Blocking.may_finish.set()

        assert step.result(30).observation.total == 2
        stopping.result(30)


def test_a_server_that_stops_finishes_the_steps_that_run_and_exits_cleanly():
    with LocalServer("tests.core.counting_env") as server:
        env = CountEnv(server.base_url)
        env.reset()
        threading.Timer(0.15, os.kill, (server.pid, signal.SIGTERM)).start()
        result = env.step(CountAction(amount=2, mischief="sleep"))  # half a second

        assert result.observation.total == 2
        assert exit_code(server) == 0


def test_a_sigterm_to_the_whole_group_leaves_workers_to_finish_their_step():
    with LocalServer("tests.core.counting_env", ["--serve", "ProcessEnvironment"]) as server:
        env = CountEnv(server.base_url)
        env.reset()
        group = os.getpgid(server.pid)
        assert group == server.pid != os.getpgid(0)
        threading.Timer(0.15, lambda: os.killpg(group, signal.SIGTERM)).start()
        result = env.step(CountAction(amount=2, mischief="sleep"))  # half a second

        assert (result.observation.total, exit_code(server)) == (2, 0)


def test_a_stuck_step_does_not_keep_a_server_from_ending():
    with LocalServer("tests.core.counting_env", ["--step-timeout-s", "0.5"]) as server:
        with CountEnv(server.base_url) as env:
            env.reset()
            with pytest.raises(TimeLimitExceeded):
                env.step(CountAction(amount=1, mischief="forever"))
        os.kill(server.pid, signal.SIGTERM)
        assert exit_code(server) == 0


@pytest.mark.parametrize("arguments", [[], ["--workers", "2"]])
def test_the_sessions_of_a_server_that_drains_go_on_until_the_last_one_ends(arguments):
    options = ["--drain-timeout-s", "60", *arguments]
    with LocalServer("tests.core.counting_env", options, env_vars={"OPENENV_REPLICA": "env-1"}) as server:
        proxy = CuttingProxy(server.base_url)
        with CountEnv(proxy.url) as env:
            env.reset()
            env.step(CountAction(amount=2))
            os.kill(server.pid, signal.SIGTERM)
            wait_until(lambda: is_draining(server.base_url))
            with pytest.raises(CapacityReached, match="stopping"):
                CountEnv(server.base_url).reset()
            assert proxy.cut() == 1

            assert env.step(CountAction(amount=3)).observation.total == 5
            assert env.session_id.startswith("env-1.w" if arguments else "env-1.")
        proxy.close()
        assert exit_code(server) == 0


def test_sessions_end_with_the_time_that_they_have_to_go_on():
    with LocalServer("tests.core.counting_env", ["--drain-timeout-s", "0.5", "--reconnect-grace-s", "1"]) as server:
        env = CountEnv(server.base_url)
        env.reset()
        os.kill(server.pid, signal.SIGTERM)

        assert exit_code(server) == 0
        with pytest.raises(SessionLost):
            env.step(CountAction(amount=1))


def test_after_a_second_ctrl_c_no_session_goes_on():
    with LocalServer("tests.core.counting_env", ["--drain-timeout-s", "600"]) as server:
        env = CountEnv(server.base_url)
        env.reset()
        os.kill(server.pid, signal.SIGINT)
        wait_until(lambda: is_draining(server.base_url))
        os.kill(server.pid, signal.SIGINT)

        assert exit_code(server) == 130


@pytest.mark.finding("threads and signal handlers of an environment do not keep a server from ending")
@pytest.mark.parametrize("arguments", [[], ["--workers", "2"]])
def test_threads_and_signal_handlers_of_an_environment_do_not_keep_a_server_from_ending(arguments):
    with LocalServer("tests.core.counting_env", ["--serve", "Lingering", *arguments]) as server:
        with CountEnv(server.base_url) as env:
            env.reset()
            wait_until(lambda: "replaced the handler of SIGTERM" in server.output())
        os.kill(server.pid, signal.SIGTERM)
        wait_until(lambda: not is_running(server.pid), timeout_s=30)

        assert exit_code(server) == 0


class PollCountingLoop(asyncio.SelectorEventLoop):
    """Counts how often the loop polls its sockets without blocking."""

    num_polls = 0

    def call_soon(self, callback, *args, context=None):
        self.num_polls += getattr(callback, "__self__", None) is LoopSpinner.of(self)
        return super().call_soon(callback, *args, context=context)


@pytest.mark.parametrize("busy_poll", [True, False])
def test_a_server_polls_after_a_message_if_it_is_configured_to(busy_poll):
    async def play():
        app = create_app(CountingEnvironment, config=ServerConfig(busy_poll=busy_poll))
        graceful = server(app, "127.0.0.1", 0)
        serving = asyncio.create_task(graceful.serve())
        await asyncio.to_thread(wait_until, lambda: graceful.started)
        port = graceful.servers[0].sockets[0].getsockname()[1]
        async with websockets.connect(f"ws://127.0.0.1:{port}/ws") as connection:
            await connection.send('{"type":"reset"}')
            await connection.recv()
        graceful.should_exit = True
        await serving

    with asyncio.Runner(loop_factory=PollCountingLoop) as runner:
        runner.run(play())
        assert bool(runner.get_loop().num_polls) is busy_poll


def test_the_log_of_a_program_goes_on_when_it_serves(tmp_path):
    handler = logging.FileHandler(tmp_path / "program.log", mode="w")
    program = logging.getLogger("a program")
    program.addHandler(handler)
    try:
        server(create_app(CountingEnvironment), "127.0.0.1", 0)
        program.warning("still open")
    finally:
        program.removeHandler(handler)
        handler.close()

    assert (tmp_path / "program.log").read_text() == "still open\n"
