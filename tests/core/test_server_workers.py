"""Several workers behind one port are one server: every session is found again, and a worker that dies dies alone."""

import asyncio
import contextlib
import os
import signal
import socket
import threading
import time
from collections import Counter
from collections.abc import Iterator
from urllib.parse import urlsplit

import httpx
import numpy as np
import pytest
from fastapi import FastAPI
from prometheus_client.parser import text_string_to_metric_families

from openenv.core.containers.local_process import LocalServer
from openenv.core.env_server import create_app, serve
from openenv.core.errors import CapacityReached, NotReady, SessionFault, SessionGone
from openenv.core.http_env_client import HTTPEnvClient
from openenv.core.protocol import SUBPROTOCOL
from openenv.core.vector import SessionPool
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment, CountObservation, CountState
from tests.core.cutting_proxy import CuttingProxy


class HttpCountEnv(HTTPEnvClient[CountAction, CountObservation, CountState]):
    """The counter over plain HTTP."""


def two_workers(*options: str) -> LocalServer:
    return LocalServer("tests.core.counting_env", ["--workers", "2", "--serve", "SavingEnvironment", *options])


@pytest.fixture(scope="module")
def server() -> Iterator[LocalServer]:
    with two_workers() as server:
        yield server


@pytest.fixture
def url(server) -> str:
    return server.base_url


@contextlib.contextmanager
def playing(url: str, number: int) -> Iterator[list[CountEnv]]:
    """Clients whose sessions have begun."""
    with contextlib.ExitStack() as stack:
        envs = [stack.enter_context(CountEnv(url)) for _ in range(number)]
        for index, env in enumerate(envs):
            env.reset(start=-100 * index)
        yield envs


def pid_of(env: CountEnv) -> int:
    """The process that the client's environment is in."""
    return int(env.step(CountAction(amount=0, mischief="pid")).observation.payload)


def test_every_new_session_goes_to_the_worker_that_has_the_fewest(url):
    with playing(url, 4) as envs:
        shares = Counter(map(pid_of, envs))
        (first, _), (second, _) = shares.most_common()
        assert set(shares.values()) == {2}

        for env in envs:
            if pid_of(env) == first:
                env.close()
        with playing(url, 2) as more:
            assert {pid_of(env) for env in more} == {first} != {second}


async def test_sessions_that_are_opened_at_one_moment_even_out_what_was_uneven(url):
    with playing(url, 8) as envs:
        first = pid_of(envs[0])
        for env in envs:
            if pid_of(env) != first:
                env.close()
        async with SessionPool(CountEnv, url, 8) as pool:
            await pool.reset({index: {} for index in range(8)})
            steps = await pool.step({index: CountAction(amount=0, mischief="pid") for index in range(8)})

        assert sum(result.observation.payload == first for result in steps.values()) == 2


def test_a_client_whose_connection_breaks_comes_back_to_its_session_wherever_it_is(url):
    proxy = CuttingProxy(url)
    with playing(proxy.url, 4) as envs:
        by_worker = sorted(range(4), key=lambda index: pid_of(envs[index]))  # not the order in which they came
        for round_number in range(1, 4):
            assert proxy.cut() == 4
            for index in by_worker:
                assert envs[index].step(CountAction(amount=1)).observation.total == round_number - 100 * index
    proxy.close()


def test_one_http_connection_plays_sessions_of_every_worker(url):
    with playing(url, 4) as envs, httpx.Client(base_url=url) as http:
        for index, env in enumerate(envs):
            named = {"X-Session-Id": env.session_id}
            stepped = http.post("/step", json={"action": {"amount": 1}}, headers=named)
            state = http.get("/state", headers=named)

            assert stepped.json()["observation"]["total"] == state.json()["total"] == 1 - 100 * index
            assert stepped.headers.get_list("x-session-id") == [env.session_id]
            assert len(stepped.headers.get_list("content-length")) == 1


def test_one_http_connection_ends_sessions_of_every_worker(url):
    with contextlib.ExitStack() as stack:
        envs = [stack.enter_context(HttpCountEnv(url)) for _ in range(4)]
        for env in envs:
            env.reset()
        with httpx.Client(base_url=url) as http:
            assert {http.delete(f"/sessions/{env.session_id}").status_code for env in envs} == {204}
            assert {http.delete(f"/sessions/{env.session_id}").status_code for env in envs} == {404}


def test_a_json_rpc_request_finds_the_session_that_its_body_names(url):
    with playing(url, 4) as envs, httpx.Client(base_url=url) as http:
        for env in envs:
            request = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close"}
            answer = http.post("/mcp", json={**request, "params": {"session_id": env.session_id}}).json()

            assert answer["result"] == {"session_id": env.session_id, "closed": False, "closing": True}


def test_a_caller_has_one_default_session_whichever_worker_its_connections_lead_to(url):
    with playing(url, 2) as envs:
        connections = [httpx.Client(base_url=url) for _ in envs]
        for http, env in zip(connections, envs, strict=True):  # so that each connection is another worker's
            http.get("/state", headers={"X-Session-Id": env.session_id})
        opened = connections[0].post("/reset", json={"start": 40}).headers["x-session-id"]

        for http in [*connections, httpx.Client(base_url=url)]:
            state = http.get("/state")
            assert (state.headers["x-session-id"], state.json()["total"]) == (opened, 40)
            forged = http.get("/state", headers={"X-OpenEnv-Caller": "guessed 10.0.0.1"})
            assert forged.headers["x-session-id"] == opened
            http.close()
        httpx.delete(f"{url}/sessions/{opened}")


def test_a_snapshot_is_restored_in_a_session_of_another_worker(url):
    with playing(url, 2) as (saved, other):
        assert pid_of(saved) != pid_of(other)
        saved.step(CountAction(amount=3))
        token = saved.save()
        draws = [saved.step(CountAction(amount=1)).observation.draw]
        other.restore(token)

        assert [other.step(CountAction(amount=1)).observation.draw] == draws
        assert other.state().total == 4
        with pytest.raises(SessionFault, match="Unknown snapshot token"):
            other.restore("no such token")


def test_branches_of_a_session_are_found_by_their_ids(url):
    with playing(url, 2) as envs:
        for env in envs:
            total = env.step(CountAction(amount=2)).observation.total
            for branch in env.fork(3):
                with branch:
                    assert branch.step(CountAction(amount=1)).observation.total == total + 1


async def test_environments_that_share_sessions_are_spread_over_the_workers():
    with two_workers("--serve", "InlineEnvironment") as server:
        async with SessionPool(CountEnv, server.base_url, 5) as pool:
            await pool.reset({index: {"start": -100 * index} for index in range(5)})
            results = await pool.step({index: CountAction(amount=index, mischief="pid") for index in (4, 1, 0, 3)})
            assert {i: result.observation.total for i, result in results.items()} == {0: 0, 1: -99, 3: -297, 4: -396}
            by_worker = Counter(result.observation.payload for result in results.values())
            assert sorted(by_worker.values()) == [2, 2]


def test_vectors_with_several_sessions_use_several_workers(url):
    with CountEnv(url).vector(4, num_sessions=2, autoreset="disabled") as envs:
        envs.reset(seed=1)
        infos = envs.step({"amount": np.zeros(4, dtype=int), "mischief": ["pid"] * 4})[4]
        assert len(set(infos["payload"])) == 2


def test_metrics_and_readiness_are_those_of_all_workers(url):
    with playing(url, 4):
        families = {family.name: family for family in text_string_to_metric_families(httpx.get(f"{url}/metrics").text)}
        open_sessions = {sample.labels["worker"]: sample.value for sample in families["openenv_sessions"].samples}

        assert open_sessions == {"0": 2, "1": 2}
        assert families["openenv_latency_seconds"].type == "histogram"
        assert httpx.get(f"{url}/ready").json() == {"ready": True, "sessions": 4, "max_sessions": 4096}


def test_a_client_that_says_its_request_slowly_keeps_nobody_waiting_and_comes_to_its_session(url):
    with playing(url, 2) as envs:
        for env in envs:
            line, rest = handshake(f"/ws?session_id={env.session_id}").split(b"-", 1)
            with socket.create_connection(address(url), timeout=10) as slow:
                slow.sendall(line)
                assert httpx.get(f"{url}/health").status_code == 200
                for byte in b"-" + rest:
                    slow.sendall(bytes([byte]))
                welcome = slow.recv(4096)
                while b"grace_s" not in welcome:
                    welcome += slow.recv(4096)

            assert f'"session_id":"{env.session_id}"'.encode() in welcome


@pytest.mark.parametrize(
    "said", [b"\x00\xff\r\n\r\n", b"GET http://[ HTTP/1.1\r\n\r\n", b"", b"GET", b"\r\n\r\n" * 9000]
)
def test_what_is_no_request_harms_nobody(url, said):
    with socket.create_connection(address(url), timeout=10) as strange:
        strange.sendall(said)
        strange.shutdown(socket.SHUT_WR)
        with contextlib.suppress(ConnectionError):
            while strange.recv(4096):
                pass
    assert httpx.get(f"{url}/health").status_code == 200


def test_the_limit_of_sessions_and_the_queue_hold_for_all_workers_together():
    with two_workers("--max-sessions", "3", "--max-waiting", "1") as server, playing(server.base_url, 3) as envs:
        waiting = threading.Thread(target=lambda: reset_and_close(CountEnv(server.base_url)))
        waiting.start()
        wait_until(lambda: waiting_callers(server.base_url) == 1)
        with pytest.raises(CapacityReached, match="3/3 sessions active"):
            CountEnv(server.base_url).reset()

        envs[1].close()
        waiting.join(10)
        assert not waiting.is_alive()
        wait_until(lambda: httpx.get(f"{server.base_url}/ready").json()["sessions"] == 2)


async def test_a_client_that_leaves_the_queue_leaves_its_place_in_it_to_others():
    with two_workers("--max-sessions", "1", "--max-waiting", "1") as server:
        async with CountEnv(server.base_url) as env:
            await env.reset()
            leaving = asyncio.ensure_future(CountEnv(server.base_url).__aenter__())
            await asyncio.to_thread(wait_until, lambda: waiting_callers(server.base_url) == 1)
            leaving.cancel()
            await asyncio.to_thread(wait_until, lambda: waiting_callers(server.base_url) == 0)
            staying = asyncio.ensure_future(CountEnv(server.base_url).__aenter__())
            await asyncio.to_thread(wait_until, lambda: waiting_callers(server.base_url) == 1)
        async with await staying as env:
            assert (await env.reset()).observation.total == 0


def test_a_worker_that_dies_ends_its_own_sessions_alone_and_is_started_again():
    with two_workers("--max-sessions", "2") as server, playing(server.base_url, 2) as (dying, living):
        dead, alive = pid_of(dying), pid_of(living)
        token = dying.save()
        with pytest.raises(SessionGone):
            dying.step(CountAction(amount=1, mischief="exit"))

        assert living.step(CountAction(amount=1)).observation.total == -99
        wait_until(lambda: "ended (exit code 3), its 1 sessions with it: starts again" in server.output())
        dying.reset()  # its place is free again
        dying.restore(token)
        assert dying.state().total == 0
        wait_until(lambda: len(set(children_of(server.pid)) - {dead, alive}) > 0)
        wait_until(lambda: pid_of_another(dying) not in (dead, alive))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_server_that_is_asked_to_stop_finishes_the_steps_of_all_workers_and_exits_with_0(number):
    with two_workers() as server, playing(server.base_url, 2) as envs:
        assert len(set(map(pid_of, envs))) == 2
        threading.Timer(0.15, lambda: os.killpg(server.pid, number)).start()  # as a terminal's Ctrl-C does
        results = []
        steps = [threading.Thread(target=lambda env=env: results.append(slow_step(env))) for env in envs]
        for step in steps:
            step.start()
        for step in steps:
            step.join()

        assert sorted(results) == [-98, 2]
        assert server._process.wait(10) == 0
        assert "Traceback" not in server.output()


def test_a_worker_leaves_it_to_the_front_door_what_ctrl_c_means():
    with two_workers() as server, playing(server.base_url, 1) as envs:
        pid = pid_of(envs[0])
        for _ in range(2):
            os.kill(pid, signal.SIGINT)
            assert slow_step(envs[0]) > 0
        assert pid_of(envs[0]) == pid


def test_a_server_that_is_killed_leaves_no_worker_behind():
    with two_workers() as server, playing(server.base_url, 2) as envs:
        pids = [pid_of(env) for env in envs]
        os.kill(server.pid, signal.SIGKILL)
        wait_until(lambda: not any(is_running(pid) for pid in pids))


def test_a_worker_that_cannot_start_ends_the_server_with_the_reason():
    with pytest.raises(NotReady, match="before it served: its log says why") as caught:
        LocalServer("tests.core.counting_env", ["--workers", "2", "--serve", "OnlyInOneProcess"]).start()
    assert "there is another one" in str(caught.value)


@pytest.mark.parametrize(
    ("app", "workers", "words"),
    [
        (create_app(CountingEnvironment), 0, "workers=0: give 1, or as many as the machine has cores"),
        (create_app(CountingEnvironment), 2, "Give serve.. 'MODULE:APP', or a function of a module"),
        (lambda: create_app(CountingEnvironment), 2, "the application cannot be made in another process"),
        (FastAPI, 2, "the application knows no sessions"),
    ],
)
def test_workers_that_cannot_be_had_are_refused_with_the_remedy(app, workers, words):
    with pytest.raises(ValueError, match=words):
        serve(app, port=0, workers=workers)


def address(url: str) -> tuple[str, int]:
    parts = urlsplit(url)
    return str(parts.hostname), int(parts.port or 0)


def handshake(target: str) -> bytes:
    """A request for a WebSocket in the extended dialect."""
    headers = {
        "Host": "here",
        "Upgrade": "websocket",
        "Connection": "Upgrade",
        "Sec-WebSocket-Key": "dGhlIHNhbXBsZSBub25jZQ==",
        "Sec-WebSocket-Version": "13",
        "Sec-WebSocket-Protocol": SUBPROTOCOL,
    }
    lines = [f"GET {target} HTTP/1.1", *(f"{name}: {value}" for name, value in headers.items()), "", ""]
    return "\r\n".join(lines).encode()


def reset_and_close(env: CountEnv) -> None:
    env.reset()
    env.close()


def slow_step(env: CountEnv) -> int:
    return env.step(CountAction(amount=2, mischief="sleep")).observation.total


def pid_of_another(env: CountEnv) -> int:
    """The process of a new session in place of the one that `env` has."""
    env.disconnect()
    env.reset()
    return pid_of(env)


def waiting_callers(url: str) -> float:
    families = text_string_to_metric_families(httpx.get(f"{url}/metrics").text)
    return sum(s.value for family in families if family.name == "openenv_sessions_waiting" for s in family.samples)


def children_of(pid: int) -> list[int]:
    return [int(child) for child in open(f"/proc/{pid}/task/{pid}/children").read().split()]


def is_running(pid: int) -> bool:
    try:
        return open(f"/proc/{pid}/stat").read().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def wait_until(condition, timeout_s=15.0):
    deadline = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)
