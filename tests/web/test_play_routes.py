"""The routes of the page at `/web`: a person resets, steps and sees the state, each tab in a session of its own."""

import json
import re

import httpx
import pytest
from fastapi import FastAPI
from pydantic import ConfigDict
from websockets.sync.client import connect

from openenv.core.env_server import Action, ServerConfig, create_app, create_fastapi_app
from openenv.envs.echo_env.server.environment import EchoEnvironment
from openenv.envs.openspiel_env.server.app import program
from openenv.web.published.interface import create_web_interface_app
from tests.core.counting_env import CountAction, CountingEnvironment, CountObservation
from tests.hosting.workers.two_workers import two_workers

pytestmark = pytest.mark.finding("every public name of the published package exists here")

MESSAGES = (CountAction, CountObservation)


class Drawn(CountingEnvironment):
    """Counts, and draws what it has counted."""

    def render_web(self, observation):
        return f"<b>{observation['total']}, {observation['reward']}, {observation['done']}</b>"

    def web_actions(self, observation):
        return [("one more", {"amount": 1})]


class Choosing(CountingEnvironment):
    """Names its legal actions."""

    def reset(self, seed=None, episode_id=None, start=0):
        seen = super().reset(seed, episode_id, start)
        return seen.model_copy(update={"metadata": {"legal_actions": [3, 10], "legal_action_names": ["left", "right"]}})


class Broken(CountingEnvironment):
    def render_web(self, observation):
        raise RuntimeError("no canvas")

    def web_actions(self, observation):
        raise KeyError("no action")


@pytest.fixture(params=["simulation", "production"])
def http(request, serving):
    """A client of a server with the page."""
    with httpx.Client(base_url=serving(create_web_interface_app(Drawn, *MESSAGES, mode=request.param))) as client:
        yield client


def test_the_page_loads_nothing_from_elsewhere_and_no_script_but_its_own(http):
    shown = http.get("/web/")
    policy = shown.headers["content-security-policy"]

    assert (shown.status_code, shown.headers["content-type"]) == (200, "text/html; charset=utf-8")
    assert set(re.findall(r'(?:src|href)="([^"]*)"', shown.text)) == {
        "data:,", "assets/page.css", "assets/play.js", "#main", "./", "../docs"
    }  # fmt: skip
    assert "default-src 'none'" in policy
    assert "unsafe" not in policy
    assert http.get("/web").headers["location"] == http.get("/").headers["location"] == "web/"


def test_a_person_resets_steps_and_sees_the_state(http):
    first = http.post("/web/reset", json={"start": 3, "seed": None}, headers={"X-Session-Id": "new"}).json()
    session = {"X-Session-Id": first["session_id"]}
    second = http.post("/web/step", json={"action": {"amount": 2}}, headers=session).json()

    assert (first["observation"]["total"], first["html"]) == (3, "<b>3, None, False</b>")
    assert (second["observation"]["total"], second["reward"], second["done"]) == (5, 2.0, False)
    assert (second["html"], second["actions"]) == ("<b>5, 2.0, False</b>", [["one more", {"amount": 1}]])
    assert http.get("/web/state", headers=session).json()["total"] == 5
    assert http.get("/web/metadata").json()["description"] == "Counts, and draws what it has counted."


def test_the_page_works_below_another_path(serving):
    app = FastAPI()
    app.mount("/games", create_app(Drawn, config=ServerConfig(token="sesame")))
    with httpx.Client(base_url=f"{serving(app)}/games/") as below:
        assert below.get("web/").headers["location"] == "login"
        own = {"Origin": str(below.base_url).removesuffix("/games/")}
        logged_in = below.post("web/login", data={"token": "sesame"}, headers=own)
        assert "Path=/games;" in logged_in.headers["set-cookie"]
        assert below.get("web/").status_code == below.get("web/assets/play.js").status_code == 200


def test_each_tab_has_a_session_of_its_own(http):
    tabs = [http.post("/web/reset", json={"start": start}, headers={"X-Session-Id": "new"}) for start in (1, 2)]
    totals = [
        http.get("/web/state", headers={"X-Session-Id": tab.headers["X-Session-Id"]}).json()["total"] for tab in tabs
    ]

    assert totals == [1, 2]


def test_a_tab_plays_on_the_worker_of_its_session_whichever_worker_answers():
    with two_workers() as server, httpx.Client(base_url=server.base_url) as client:
        for start in range(4):
            begun = client.post("/web/reset", json={"start": start}, headers={"X-Session-Id": "new"}).json()
            session = {"X-Session-Id": begun["session_id"], "Connection": "close"}
            stepped = client.post("/web/step", json={"action": {"amount": 1}}, headers=session).json()
            assert stepped["observation"]["total"] == start + 1


def test_a_tab_that_closes_ends_its_session(http):
    session = {"X-Session-Id": http.post("/web/reset", headers={"X-Session-Id": "new"}).headers["X-Session-Id"]}

    assert http.post("/web/close", headers=session).status_code == 204
    assert http.get("/web/state", headers=session).status_code == 404


def test_a_reset_opens_another_session_where_the_tabs_own_has_ended(http):
    ended = http.post("/web/reset", headers={"X-Session-Id": "new"}).headers["X-Session-Id"]
    http.post("/web/close", headers={"X-Session-Id": ended})
    opened = http.post("/web/reset", json={"start": 3}, headers={"X-Session-Id": ended})

    assert (opened.status_code, opened.json()["observation"]["total"]) == (200, 3)
    assert http.get("/web/state", headers={"X-Session-Id": opened.headers["X-Session-Id"]}).json()["total"] == 3


@pytest.mark.finding("a foreign Host or a cross-site request is refused where there is no token")
@pytest.mark.parametrize(
    ("mode", "dest", "method", "is_opened"),
    [
        ("navigate", "document", "GET", True),
        ("navigate", "iframe", "GET", False),
        ("no-cors", "script", "GET", False),
        ("navigate", "document", "POST", False),
    ],
)
def test_a_link_of_another_site_opens_the_page_and_nothing_else_of_that_site_does(http, mode, dest, method, is_opened):
    sent = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    for path in ("/", "/web", "/web/", "/docs"):
        assert (http.request(method, path, headers=sent).status_code != 403) is is_opened
    assert http.get("/web/state", headers=sent).status_code == 403


def test_the_page_of_a_named_host_plays_where_the_configuration_allows_it(serving):
    config = ServerConfig(allowed_origins=("http://games.example",), allowed_hosts=("games.example",))
    headers = {"Host": "games.example", "Origin": "http://games.example"}
    named = ServerConfig(allowed_hosts=("games.example",))
    for given, status in ((config, 200), (named, 200), (None, 403)):
        url = serving(create_web_interface_app(Drawn, *MESSAGES, config=given))
        assert httpx.post(f"{url}/web/reset", headers=headers).status_code == status


def test_a_wrong_action_is_an_error_that_names_the_field(http):
    session = {"X-Session-Id": http.post("/web/reset").json()["session_id"]}
    refused = http.post("/web/step", json={"action": {"amont": 2}}, headers=session)

    assert refused.status_code == 422
    assert {row["loc"][-1] for row in refused.json()["detail"]} == {"amount", "amont"}


def test_an_environment_that_draws_nothing_or_fails_to_draw_is_shown_by_its_fields(serving, caplog):
    caplog.set_level("INFO")
    for environment_cls in (CountingEnvironment, Broken):
        url = serving(create_web_interface_app(environment_cls, *MESSAGES))
        shown = httpx.post(f"{url}/web/reset").json()
        assert (shown["observation"]["total"], shown["html"], shown["actions"]) == (0, None, [])
    warnings = [record.message for record in caplog.records if record.levelname == "WARNING"]
    failures = [warning.partition(": ")[2] for warning in warnings]
    assert failures == ["render_web failed: no canvas", "web_actions failed: 'no action'"]
    assert ("in render_web" in caplog.text, "in web_actions" in caplog.text) == (True, True)  # the tracebacks


@pytest.mark.parametrize(
    ("value", "is_there"), [("true", True), ("1", True), ("YES", True), ("false", False), ("", True)]
)
@pytest.mark.finding("a server has a first page, loads nothing from elsewhere, and names a used port")
def test_every_server_has_the_page_unless_a_variable_turns_it_off(serving, monkeypatch, value, is_there):
    monkeypatch.setenv("ENABLE_WEB_INTERFACE", value)
    with_page, without = serving(create_app(Drawn)), serving(create_fastapi_app(Drawn))

    assert (httpx.get(f"{with_page}/web/").status_code == 200) is is_there
    assert (httpx.get(with_page).status_code == 307) is is_there
    assert httpx.get(f"{without}/web/").status_code == 404


def test_a_first_page_of_the_authors_own_stays(serving):
    app = create_app(Drawn)

    @app.get("/")
    def first_page():
        return "welcome"

    url = serving(app)
    assert httpx.get(url).json() == "welcome"
    assert httpx.get(f"{url}/nowhere").status_code == 404


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
@pytest.mark.finding("a server has a first page, loads nothing from elsewhere, and names a used port")
def test_the_documentation_needs_no_other_server(serving, path):
    url = serving(create_app(Drawn))
    loaded = re.findall(r"""(?:src|href)="([^"]+)\"""", httpx.get(f"{url}{path}").text)

    assert loaded
    assert [httpx.get(url + where).status_code for where in loaded] == [200] * len(loaded)


def test_legal_actions_are_offered_where_the_environment_writes_none(serving):
    url = serving(create_app(Choosing))
    offered = httpx.post(f"{url}/web/reset").json()["actions"]
    session = {"X-Session-Id": httpx.post(f"{url}/web/reset").headers["X-Session-Id"]}
    over = httpx.post(f"{url}/web/step", json={"action": offered[1][1]}, headers=session).json()

    assert offered == [["left", {"amount": 3}], ["right", {"amount": 10}]]
    assert (over["done"], over["actions"]) == (True, [])


class Tensor:
    """No schema describes it."""


class TensorAction(Action):
    """As the published chat environment has one."""

    model_config = ConfigDict(arbitrary_types_allowed=True)
    tokens: Tensor


class Tensors(CountingEnvironment):
    """Takes what no JSON Schema describes."""

    def step(self, action: TensorAction, timeout_s=None, **kwargs):
        return CountObservation(total=1)


def test_an_action_without_a_schema_is_written_as_json(serving):
    url = serving(create_app(Tensors, TensorAction, CountObservation))

    assert httpx.post(f"{url}/web/reset").json()["actions"] == []
    assert 'name="tokens" data-kind="json"' in httpx.get(f"{url}/web/").text


def test_a_drawing_is_a_document_that_runs_nothing(http):
    session = http.post("/web/reset", headers={"X-Session-Id": "new"}).json()
    drawn = http.get(f"/web/{session['drawing']}")
    policy = drawn.headers["content-security-policy"]

    assert drawn.text == session["html"]
    assert policy.startswith("sandbox; default-src 'none'")
    assert "script-src" not in policy
    assert http.get("/web/drawings/unknown").status_code == 404


def test_the_published_socket_of_a_page_receives_the_episode_after_each_verb(http):
    session = {"X-Session-Id": http.post("/web/reset", headers={"X-Session-Id": "new"}).headers["X-Session-Id"]}
    base_url = str(http.base_url).replace("http", "ws", 1)
    with connect(f"{base_url}/ws/ui?session_id={session['X-Session-Id']}") as own, connect(f"{base_url}/ws/ui") as lost:
        assert json.loads(lost.recv(timeout=10))["type"] == "state_update"  # the caller's own session, opened for it
        json.loads(own.recv(timeout=10))
        http.post("/web/step", json={"action": {"amount": 2}}, headers=session)
        stepped = json.loads(own.recv(timeout=10))
        http.post("/web/reset", json={"start": 5}, headers=session)
        begun = json.loads(own.recv(timeout=10))["episode_state"]

    assert stepped["type"] == "state_update"
    assert stepped["episode_state"]["step_count"] == 1
    (log,) = stepped["episode_state"]["action_logs"]
    assert (log["action"], log["reward"], log["step_count"]) == ({"amount": 2}, 2.0, 1)
    assert (begun["step_count"], begun["current_observation"]["total"], begun["action_logs"]) == (0, 5, [])


def test_the_published_socket_repeats_the_newest_steps_up_to_a_size(serving):
    steps = [{"action": {"message": str(number) * 300_000}} for number in range(6)]
    with httpx.Client(base_url=serving(create_app(EchoEnvironment)), timeout=60) as http:
        http.post("/web/reset", json={})
        base_url = str(http.base_url).replace("http", "ws", 1)
        with connect(f"{base_url}/ws/ui", max_size=None) as page:
            for step in steps:
                http.post("/web/step", json=step).raise_for_status()
            frame = '{"episode_state": {"step_count": 0}}'
            while json.loads(frame)["episode_state"]["step_count"] < len(steps):
                frame = page.recv(timeout=10)

    logs = json.loads(frame)["episode_state"]["action_logs"]
    assert logs[-1]["step_count"] == len(steps)
    assert len(frame) < 3_000_000


def test_a_reset_names_the_game_of_the_state_and_a_state_that_fails_names_none(serving):
    class Stateless(CountingEnvironment):
        @property
        def state(self):
            raise RuntimeError("no state")

    with httpx.Client(base_url=serving(program.build(game_name="catch"))) as http:
        named = [http.post("/web/reset", json=body).json()["game"] for body in ({}, {"game_name": "tic_tac_toe"})]
    with httpx.Client(base_url=serving(create_app(Stateless))) as http:
        begun = http.post("/web/reset", json={}).raise_for_status().json()
        stepped = http.post("/web/step", json={"action": {"amount": 2}})

    assert named == ["catch", "tic_tac_toe"]
    assert begun["game"] == ""
    assert stepped.json()["reward"] == 2.0
