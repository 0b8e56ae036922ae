"""The page at `/web`: a person resets, steps and sees the state, each tab in a session of its own."""

import re

import httpx
import pytest

from openenv.core.env_server import ServerConfig, create_app, create_fastapi_app
from openenv.core.env_server.web_interface import (
    WebInterfaceManager,
    create_web_interface_app,
    get_quick_start_markdown,
    load_environment_metadata,
)
from tests.core.counting_env import AsyncEnvironment, CountAction, CountingEnvironment, CountObservation

pytestmark = pytest.mark.finding("B1")

MESSAGES = (CountAction, CountObservation)


class Drawn(CountingEnvironment):
    """Counts, and draws what it has counted."""

    def render_web(self, observation):
        return f"<b>{observation['total']}, {observation['reward']}, {observation['done']}</b>"

    def web_actions(self, observation):
        return [("one more", {"amount": 1})]


class Broken(CountingEnvironment):
    def render_web(self, observation):
        raise RuntimeError("no canvas")

    def web_actions(self, observation):
        raise KeyError("no action")


@pytest.fixture(params=["simulation", "production"])
def page(request, serving):
    """A client of a server with the page."""
    with httpx.Client(base_url=serving(create_web_interface_app(Drawn, *MESSAGES, mode=request.param))) as client:
        yield client


def test_the_page_is_one_file_without_scripts_from_elsewhere(page):
    for path in ("/web", "/web/"):
        shown = page.get(path)
        assert (shown.status_code, shown.headers["content-type"]) == (200, "text/html; charset=utf-8")
        assert not re.search(r"(src|href)=|https?://|@import", shown.text)
    assert page.get("/").headers["location"] == "web/"


def test_a_person_resets_steps_and_sees_the_state(page):
    first = page.post("/web/reset", json={"start": 3, "seed": None}, headers={"X-Session-Id": "new"}).json()
    session = {"X-Session-Id": first["session_id"]}
    second = page.post("/web/step", json={"action": {"amount": 2}}, headers=session).json()

    assert (first["observation"]["total"], first["html"]) == (3, "<b>3, None, False</b>")
    assert (second["observation"]["total"], second["reward"], second["done"]) == (5, 2.0, False)
    assert (second["html"], second["actions"]) == ("<b>5, 2.0, False</b>", [["one more", {"amount": 1}]])
    assert page.get("/web/state", headers=session).json()["total"] == 5
    assert page.get("/web/metadata").json()["description"] == "Counts, and draws what it has counted."


def test_each_tab_has_a_session_of_its_own(page):
    tabs = [page.post("/web/reset", json={"start": start}, headers={"X-Session-Id": "new"}) for start in (1, 2)]
    totals = [
        page.get("/web/state", headers={"X-Session-Id": tab.headers["X-Session-Id"]}).json()["total"] for tab in tabs
    ]

    assert totals == [1, 2]


def test_a_tab_that_closes_ends_its_session(page):
    session = {"X-Session-Id": page.post("/web/reset", headers={"X-Session-Id": "new"}).headers["X-Session-Id"]}

    assert page.post("/web/close", headers=session).status_code == 204
    assert page.get("/web/state", headers=session).status_code == 404


def test_a_reset_opens_another_session_where_the_tabs_own_has_ended(page):
    ended = page.post("/web/reset", headers={"X-Session-Id": "new"}).headers["X-Session-Id"]
    page.post("/web/close", headers={"X-Session-Id": ended})
    opened = page.post("/web/reset", json={"start": 3}, headers={"X-Session-Id": ended})

    assert (opened.status_code, opened.json()["observation"]["total"]) == (200, 3)
    assert page.get("/web/state", headers={"X-Session-Id": opened.headers["X-Session-Id"]}).json()["total"] == 3


@pytest.mark.finding("L1")
@pytest.mark.parametrize(
    ("mode", "dest", "method", "is_opened"),
    [
        ("navigate", "document", "GET", True),
        ("navigate", "iframe", "GET", False),
        ("no-cors", "script", "GET", False),
        ("navigate", "document", "POST", False),
    ],
)
def test_a_link_of_another_site_opens_the_page_and_nothing_else_of_that_site_does(page, mode, dest, method, is_opened):
    sent = {"Sec-Fetch-Site": "cross-site", "Sec-Fetch-Mode": mode, "Sec-Fetch-Dest": dest}
    for path in ("/", "/web", "/web/", "/docs"):
        assert (page.request(method, path, headers=sent).status_code != 403) is is_opened
    assert page.get("/web/state", headers=sent).status_code == 403


def test_the_page_of_a_named_host_plays_where_the_configuration_allows_it(serving):
    config = ServerConfig(allowed_origins=("http://games.example",), allowed_hosts=("games.example",))
    headers = {"Host": "games.example", "Origin": "http://games.example"}
    for given, status in ((config, 200), (None, 403)):
        url = serving(create_web_interface_app(Drawn, *MESSAGES, config=given))
        assert httpx.post(f"{url}/web/reset", headers=headers).status_code == status


def test_a_wrong_action_is_an_error_that_names_the_field(page):
    session = {"X-Session-Id": page.post("/web/reset").json()["session_id"]}
    refused = page.post("/web/step", json={"action": {"amont": 2}}, headers=session)

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
    ("value", "is_there"), [("true", True), ("1", True), ("YES", True), ("false", False), ("", False)]
)
def test_an_environment_variable_adds_the_page_to_create_app(serving, monkeypatch, value, is_there):
    monkeypatch.setenv("ENABLE_WEB_INTERFACE", value)
    with_page, without = serving(create_app(Drawn)), serving(create_fastapi_app(Drawn))

    assert (httpx.get(f"{with_page}/web").status_code == 200) is is_there
    assert httpx.get(f"{without}/web").status_code == 404


def test_the_page_needs_the_servers_token(serving, monkeypatch):
    monkeypatch.setenv("ENABLE_WEB_INTERFACE", "1")
    url = serving(create_app(Drawn, config=ServerConfig(token="secret")))

    assert httpx.post(f"{url}/web/reset").status_code == 401
    assert httpx.post(f"{url}/web/reset", headers={"Authorization": "Bearer secret"}).status_code == 200


class Socket:
    """A connection of a page that may break."""

    def __init__(self):
        self.received, self.is_broken = [], False

    async def accept(self):
        self.received.append("accepted")

    async def send_text(self, text):
        if self.is_broken:
            raise RuntimeError("closed")
        self.received.append(text)


@pytest.mark.parametrize("environment_cls", [CountingEnvironment, AsyncEnvironment])
async def test_a_manager_plays_an_environment_for_all_pages_that_are_connected(environment_cls):
    manager = WebInterfaceManager(environment_cls(), *MESSAGES)
    stays, breaks = Socket(), Socket()
    await manager.connect_websocket(stays)
    await manager.connect_websocket(breaks)
    await manager.reset_environment({"start": 4})
    breaks.is_broken = True
    stepped = await manager.step_environment({"amount": "2"})

    assert stepped["observation"]["total"] == manager.get_state()["total"] == 6
    assert (manager.episode_state.step_count, manager.episode_state.action_logs[0].reward) == (1, 2.0)
    assert '"total": 6' in stays.received[-1]
    assert manager.connected_clients == [stays]
    await manager.disconnect_websocket(stays)
    assert manager.connected_clients == []


def test_metadata_of_a_class_comes_from_its_docstring_and_no_environment_is_made(tmp_path, monkeypatch):
    monkeypatch.setenv("ENV_README_PATH", str(tmp_path / "README.md"))
    (tmp_path / "README.md").write_text("# Counts")

    def make():
        raise AssertionError("made")

    assert load_environment_metadata(make, "counting").name == "counting"
    assert load_environment_metadata(Drawn).description == "Counts, and draws what it has counted."
    assert load_environment_metadata(Drawn()).readme_content == "# Counts"


def test_the_quick_start_names_client_action_and_required_fields():
    markdown = get_quick_start_markdown(load_environment_metadata(Drawn), *MESSAGES)

    assert 'with CountEnv(base_url="http://localhost:8000") as env:' in markdown
    assert "env.step(CountAction(amount=...))" in markdown
