"""One HTTP connection reaches the sessions of every worker, and each worker answers for the whole server."""

import contextlib

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from openenv.core.http_env_client import HTTPEnvClient
from tests.core.counting_env import CountAction, CountObservation, CountState
from tests.hosting.workers.two_workers import clients

pytestmark = pytest.mark.process


class HttpCountEnv(HTTPEnvClient[CountAction, CountObservation, CountState]):
    """The counter over plain HTTP."""


def test_one_http_connection_plays_sessions_of_every_worker(url):
    with clients(url, 4) as envs, httpx.Client(base_url=url) as http:
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
    with clients(url, 4) as envs, httpx.Client(base_url=url) as http:
        for env in envs:
            request = {"jsonrpc": "2.0", "id": 1, "method": "openenv/session/close"}
            response = http.post("/mcp", json={**request, "params": {"session_id": env.session_id}}).json()

            assert response["result"] == {"session_id": env.session_id, "closed": False, "closing": True}


def test_a_caller_has_one_default_session_on_every_connection(url):
    with clients(url, 2) as envs:
        connections = [httpx.Client(base_url=url) for _ in envs]
        for http, env in zip(connections, envs, strict=True):  # so that each connection is another worker's
            http.get("/state", headers={"X-Session-Id": env.session_id})
        opened = connections[0].post("/reset", json={"start": 40}).headers["x-session-id"]

        for http in [*connections, httpx.Client(base_url=url)]:
            state = http.get("/state")
            assert (state.headers["x-session-id"], state.json()["total"]) == (opened, 40)
            forged = http.get("/state", headers={"X-OpenEnv-Caller": "10.0.0.1"})
            assert forged.headers["x-session-id"] == opened
            http.close()
        httpx.delete(f"{url}/sessions/{opened}")


def test_metrics_and_readiness_are_those_of_all_workers(url):
    with clients(url, 4):
        families = {family.name: family for family in text_string_to_metric_families(httpx.get(f"{url}/metrics").text)}
        open_sessions = {sample.labels["worker"]: sample.value for sample in families["openenv_sessions"].samples}

        assert set(open_sessions) == {"0", "1"}
        assert min(open_sessions.values()) >= 2
        assert families["openenv_latency_seconds"].type == "histogram"
        sessions = sum(open_sessions.values())
        assert httpx.get(f"{url}/ready").json() == {"ready": True, "sessions": sessions, "max_sessions": 4096}
