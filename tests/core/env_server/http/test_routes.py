"""Plain HTTP: episodes with curl and with the HTTP client, and the routes that describe a server."""

import asyncio
import threading

import httpx
import pytest

from openenv.core.env_server import ServerConfig, create_app, create_fastapi_app
from openenv.core.env_server.types import ConcurrencyConfig
from openenv.core.errors import (
    EnvironmentFault,
    EpisodeOver,
    InvalidMessage,
    MessageTooBig,
    ServerUnreachable,
    SessionFault,
    SessionGone,
)
from openenv.core.http_env_client import HTTPEnvClient
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment, CountObservation, CountState
from tests.core.cutting_proxy import CuttingProxy
from tests.core.env_server.probes import num_sessions


class CountHttp(HTTPEnvClient[CountAction, CountObservation, CountState]):
    pass


@pytest.fixture(scope="module")
def url(module_serving):
    return module_serving(create_app(CountingEnvironment, env_name="counting"))


@pytest.fixture
def own_url(serving):
    """A server without sessions of other tests."""
    return serving(create_app(CountingEnvironment, env_name="counting"))


def test_curl_plays_an_episode_without_naming_a_session(url):
    with httpx.Client(base_url=url) as curl:
        first = curl.post("/reset", json={"seed": 1})
        step = curl.post("/step", json={"action": {"amount": 4}})
        state = curl.get("/state")

    assert first.headers["x-session-id"] == first.json()["session_id"] == step.json()["session_id"]
    assert step.json()["observation"]["total"] == state.json()["total"] == 4
    assert step.json()["metadata"] is None


def test_new_opens_a_session_beside_the_default_one(url):
    with httpx.Client(base_url=url) as curl:
        curl.post("/reset", json={"start": 5})
        other = curl.post("/reset", headers={"X-Session-Id": "new"}).headers["x-session-id"]
        curl.post("/step", json={"action": {"amount": 1}}, headers={"X-Session-Id": other})

        assert curl.get("/state").json()["total"] == 5
        assert curl.get("/state", headers={"X-Session-Id": other}).json()["total"] == 1


def test_an_unknown_session_is_404_with_the_reason(url):
    response = httpx.get(f"{url}/state", headers={"X-Session-Id": "unknown"})
    assert response.status_code == 404
    assert "Unknown session_id: unknown" in response.json()["message"]


def test_a_first_request_of_any_verb_opens_the_callers_default_session(own_url):
    assert httpx.get(f"{own_url}/state").json()["total"] == 0
    assert httpx.post(f"{own_url}/step", json={"action": {"amount": 1}}).json()["observation"]["total"] == 1


def test_after_the_callers_default_session_has_ended_only_a_reset_opens_another(url):
    session = httpx.post(f"{url}/reset").headers["x-session-id"]
    httpx.delete(f"{url}/sessions/{session}")

    refused = httpx.post(f"{url}/step", json={"action": {"amount": 1}})
    assert refused.status_code == 404
    assert "POST /reset" in refused.json()["message"]
    assert httpx.post(f"{url}/reset").headers["x-session-id"] != session


def test_an_ended_session_is_gone(url):
    with httpx.Client(base_url=url) as curl:
        session = curl.post("/reset").headers["x-session-id"]
        assert curl.delete(f"/sessions/{session}").status_code == 204
        assert curl.get("/state", headers={"X-Session-Id": session}).status_code == 404


def test_options_of_a_step_reach_the_environment(url):
    with httpx.Client(base_url=url) as curl:
        curl.post("/reset")
        body = {"action": {"amount": 1}, "timeout_s": 3, "request_id": "r1", "render": True}
        payload = curl.post("/step", json=body).json()["observation"]["payload"]

    assert payload == {"timeout_s": 3.0, "request_id": "r1", "render": True}


@pytest.mark.parametrize(
    ("path", "body", "status", "field"),
    [
        ("/reset", {"seed": -1}, 422, ["body", "seed"]),
        ("/step", {"amount": 1}, 422, ["body", "action"]),
        ("/step", {"action": {}}, 422, ["amount"]),
        ("/step", {"action": {"amount": 13}}, 422, ["amount"]),
        ("/step", {"action": {"amount": 1}, "self": 1}, 422, ["self"]),
        ("/reset", {"self": 1}, 422, ["self"]),
    ],
)
def test_a_wrong_body_is_422_and_names_the_field(url, path, body, status, field):
    with httpx.Client(base_url=url) as curl:
        curl.post("/reset")
        response = curl.post(path, json=body)

    assert response.status_code == status
    assert response.json()["detail"][0]["loc"] == field


@pytest.mark.parametrize("headers", [{}, {"content-type": "application/x-www-form-urlencoded"}])
@pytest.mark.finding("what is not there or not read is an error with the next step")
def test_a_body_that_is_sent_as_no_json_is_422_and_names_the_header(url, headers):
    response = httpx.post(f"{url}/step", content=b'{"action": {"amount": 1}}', headers=headers)

    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["header", "content-type"]
    assert "application/json" in response.json()["message"]


class Broadminded(CountingEnvironment):
    """Accepts any keyword, and has another name for its action."""

    def reset(self, **options):
        return super().reset()

    def step(self, move: CountAction, **options):
        return super().step(move)


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/reset", {"self": 1}, "self"),
        ("/step", {"action": {"amount": 1}, "self": 1}, "self"),
        ("/step", {"action": {"amount": 1}, "move": {}}, "move"),
    ],
)
def test_a_keyword_that_the_server_sets_itself_is_refused(serving, path, body, field):
    with httpx.Client(base_url=serving(create_app(Broadminded))) as curl:
        curl.post("/reset")
        response = curl.post(path, json=body)

        assert (response.status_code, response.json()["code"]) == (422, "VALIDATION_ERROR")
        assert response.json()["detail"][0]["loc"] == [field]
        assert curl.post("/step", json={"action": {"amount": 1}, "speed": 2}).status_code == 200


def test_an_exception_of_the_environment_is_json_with_a_code(url):
    with httpx.Client(base_url=url) as curl:
        curl.post("/reset")
        response = curl.post("/step", json={"action": {"amount": 1, "mischief": "raise"}})

    assert response.status_code == 500
    assert response.json()["code"] == "EXECUTION_ERROR"
    assert "Traceback" not in response.text


def test_the_client_plays_over_http(url):
    with CountHttp(url) as env:
        env.reset(start=8)
        with pytest.raises(InvalidMessage, match="amount: Value error, thirteen is unlucky"):
            env.step(CountAction.model_construct(amount=13, metadata={}))
        with pytest.raises(EnvironmentFault, match="not to my taste"):
            env.step(CountAction(amount=1, mischief="raise"))
        assert env.step(CountAction(amount=2)).done
        with pytest.raises(EpisodeOver):
            env.step(CountAction(amount=2))
        assert env.state().total == 10


def test_each_http_client_has_a_session_of_its_own_and_ends_it(serving):
    url = serving(create_app(CountingEnvironment))
    with CountHttp(url) as one, CountHttp(url) as other:
        one.reset(start=1)
        other.reset(start=2)
        assert (one.state().total, other.state().total) == (1, 2)
        assert num_sessions(url) == 2
    assert num_sessions(url) == 0


def test_a_verb_before_reset_names_the_remedy(url):
    with CountHttp(url) as env, pytest.raises(SessionFault, match=r"reset\(\) before step\(\)"):
        env.step(CountAction(amount=1))


def test_an_address_without_a_server_raises_with_the_remedy():
    with pytest.raises(ServerUnreachable, match="is the server running"):
        CountHttp("http://127.0.0.1:9").reset()


async def test_the_http_client_is_asynchronous_too(url):
    async with CountHttp(url) as env, CountHttp(url) as other:
        first, second = await asyncio.gather(env.reset(start=1), other.reset(start=2))
        assert (first.observation.total, second.observation.total) == (1, 2)


def test_schema_metadata_health_and_docs_are_served(url):
    with httpx.Client(base_url=url) as curl:
        assert curl.get("/health").json() == {"status": "healthy"}
        assert set(curl.get("/schema").json()) == {"action", "observation", "reset_observation", "state"}
        assert curl.get("/schema").json()["action"]["required"] == ["amount"]
        assert curl.get("/metadata").json()["description"] == "Adds amounts; ends at ten."
        assert curl.get("/docs").status_code == 200
        assert "/step" in curl.get("/openapi.json").json()["paths"]


def test_production_serves_no_verbs_over_http(serving):
    url = serving(create_fastapi_app(CountingEnvironment, mode="production"))
    assert [httpx.post(f"{url}/reset").status_code, httpx.get(f"{url}/state").status_code] == [404, 404]
    assert httpx.get(f"{url}/health").status_code == 200


def test_the_published_parameters_set_the_limits():
    app = create_fastapi_app(CountingEnvironment, concurrency_config=ConcurrencyConfig(max_concurrent_envs=3))
    assert app.state.sessions.max_sessions == 3
    with pytest.raises(ValueError, match="set the same limit"):
        create_fastapi_app(CountingEnvironment, max_concurrent_envs=2, concurrency_config=ConcurrencyConfig())


def test_metrics_count_answers_errors_sessions_and_times(own_url):
    with httpx.Client(base_url=own_url) as curl:
        curl.post("/reset")
        for mischief in ("", "", "raise"):
            curl.post("/step", json={"action": {"amount": 1, "mischief": mischief}})
        samples = dict(line.rsplit(" ", 1) for line in curl.get("/metrics").text.splitlines() if line[0] != "#")

    assert samples["openenv_sessions"] == "1.0"
    assert samples['openenv_verbs_total{verb="step"}'] == "2.0"
    assert samples['openenv_errors_total{code="EXECUTION_ERROR"}'] == "1.0"
    assert samples['openenv_latency_seconds_bucket{le="+Inf",phase="environment"}'] == "3.0"
    assert float(samples['openenv_latency_seconds_sum{phase="encode"}']) > 0


def test_an_http_client_whose_session_has_ended_raises_until_it_resets(url):
    with CountHttp(url) as env:
        env.reset(start=3)
        httpx.delete(f"{url}/sessions/{env.session_id}")
        with pytest.raises(SessionGone, match=r"reset\(\) starts a new episode"):
            env.step(CountAction(amount=1))

        assert env.reset().observation.total == 0


def test_a_step_over_http_whose_answer_was_lost_happens_once(url):
    proxy = CuttingProxy(url)
    with CountHttp(proxy.url) as env:
        env.reset()
        threading.Timer(0.2, proxy.cut).start()  # the step sleeps for half a second
        result = env.step(CountAction(amount=3, mischief="sleep"))

        assert result.observation.total == 3
        assert env.state().step_count == 1
    proxy.close()


@pytest.mark.parametrize(
    ("path", "body", "field"),
    [
        ("/reset", {"seed": False}, "seed"),
        ("/step", {"action": {"amount": 1}, "timeout_s": True}, "timeout_s"),
        ("/counting/task", {"split": "train", "index": True}, "index"),
    ],
)
def test_a_boolean_is_no_number(url, path, body, field):
    response = httpx.post(url + path, json=body)
    assert response.status_code == 422
    assert response.json()["detail"][0]["loc"] == ["body", field]


def test_a_reset_that_is_refused_leaves_no_session_behind(own_url):
    response = httpx.post(f"{own_url}/reset", json={"strat": 1}, headers={"X-Session-Id": "new"})

    assert (response.status_code, num_sessions(own_url)) == (422, 0)


@pytest.mark.parametrize(("field", "value"), [("timeout_s", -1), ("timeout_s", "5"), ("request_id", "x" * 256)])
def test_a_reset_with_a_wrong_limit_or_id_names_the_field_and_costs_nothing(own_url, field, value):
    with httpx.Client(base_url=own_url) as http:
        http.post("/reset", json={})
        http.post("/step", json={"action": {"amount": 2}})
        refused = http.post("/reset", json={field: value})

        assert (refused.status_code, refused.json()["detail"][0]["loc"]) == (422, ["body", field])
        assert http.get("/state").json()["total"] == 2
        assert http.post("/reset", json={field: value}, headers={"X-Session-Id": "new"}).status_code == 422
        assert num_sessions(own_url) == 1


def test_metadata_are_described_while_the_only_session_is_a_vector(serving):
    app = create_app(CountingEnvironment)
    url = serving(app)
    with CountEnv(url).vector(2, autoreset="disabled") as envs:
        envs.reset()
        assert httpx.get(f"{url}/metadata").status_code == 200


def test_what_an_environment_repeats_of_a_large_request_is_cut(serving):
    class Repeating(CountingEnvironment):
        def reset(self, seed=None, episode_id=None, **given):
            raise ValueError(f"takes no {', '.join(given)}")

    refused = httpx.post(f"{serving(create_app(Repeating))}/reset", json={f"a{number}": 1 for number in range(20_000)})

    assert refused.json()["message"].startswith("takes no a0, a1")
    assert len(refused.content) < 50_000


@pytest.mark.parametrize("path", ["/reset", "/step", "/mcp", "/web/step", "/counting/tasks"])
def test_a_body_of_very_many_values_is_refused_before_it_is_parsed(own_url, path):
    if path == "/step":
        body = b'{"action": {"amount": 1, "mischief": [%b0]}}' % (b"[]," * 600_000)
    else:
        body = b"[%b0]" % (b"[]," * 600_000)

    refused = httpx.post(f"{own_url}{path}", content=body, headers={"content-type": "application/json"}, timeout=60)

    assert (refused.status_code, refused.json()["code"]) == (413, "MESSAGE_TOO_BIG")
    assert "lists and objects is above this server's limit of 500000" in refused.json()["message"]
    assert num_sessions(own_url) == 0


def test_a_frame_of_very_many_values_is_refused_and_the_session_goes_on(url):
    with CountEnv(url) as env:
        env.reset()
        with pytest.raises(MessageTooBig, match="lists and objects is above this server's limit"):
            env.step(CountAction(amount=1, metadata={"lists": [[]] * 600_000}))

        assert env.step(CountAction(amount=1)).observation.total == 1


def warnings_of(caplog):
    return [record.getMessage() for record in caplog.records if "X-Session-Id: new" in record.getMessage()]


def test_two_programs_of_one_address_on_one_default_session_are_warned_of_once(own_url, caplog):
    with httpx.Client(base_url=own_url) as first, httpx.Client(base_url=own_url) as second:
        ids = [one.post("/reset").headers["x-session-id"] for one in (first, second)]
        assert warnings_of(caplog) == []  # as of one program that has connected again
        for one in (first, second, first):
            one.post("/step", json={"action": {"amount": 1}})

    assert ids[0] == ids[1]
    assert [text[:43] for text in warnings_of(caplog)] == ["127.0.0.1 uses its default session over two"]


def test_programs_with_sessions_of_their_own_are_not_warned_of(own_url, caplog):
    with httpx.Client(base_url=own_url) as first, httpx.Client(base_url=own_url) as second:
        for one in (first, second):
            one.headers["X-Session-Id"] = "new"
            one.headers["X-Session-Id"] = one.post("/reset").headers["x-session-id"]
        for one in (first, second, first, second):
            one.post("/step", json={"action": {"amount": 1}})
    for _ in range(4):  # as curl, with a connection for each request
        httpx.post(f"{own_url}/reset")

    assert warnings_of(caplog) == []


@pytest.mark.parametrize(("proxies", "count"), [((), 1), (("127.0.0.1",), 0), (("*",), 0)])
def test_callers_behind_a_proxy_that_is_not_trusted_are_warned_of(serving, caplog, proxies, count):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(trusted_proxies=proxies)))
    for number in (1, 2):
        httpx.post(f"{url}/reset", headers={"X-Forwarded-For": f"192.0.2.{number}"})

    assert len(warnings_of(caplog)) == count
    assert all("is a proxy that trusted_proxies does not name" in text for text in warnings_of(caplog))
