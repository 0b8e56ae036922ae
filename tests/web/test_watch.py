"""Sessions are watched live and read only, where the configuration allows it."""

import json

import httpx
import pytest
from playwright.sync_api import expect
from websockets.exceptions import InvalidStatus
from websockets.sync.client import connect

from openenv.core.env_server import ServerConfig, create_app
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from tests.browser import screenshot, serious_violations
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment
from tests.hosting.workers.two_workers import clients, two_workers

pytestmark = pytest.mark.process

WATCHABLE = ServerConfig(allow_watching=True)


def sessions_of(url):
    return httpx.get(f"{url}/web/watch/sessions").raise_for_status().json()


def live(url, watch_id, **settings):
    """A connection that watches a session."""
    return connect(f"{url.replace('http', 'ws')}/web/watch/live?session_id={watch_id}", **settings)


def received(watching):
    return json.loads(watching.recv(timeout=10))


def rows_of(watching, number):
    """The next verbs that a watcher receives."""
    rows = []
    while len(rows) < number:
        rows += received(watching)["verbs"]
    return rows


def test_a_watcher_sees_verbs_rewards_errors_and_the_end(serving):
    url = serving(create_app(CountingEnvironment, config=WATCHABLE))
    with CountEnv(url) as env:
        env.reset(start=2)
        env.step(CountAction(amount=1))
        (listed,) = sessions_of(url)
        with live(url, listed["watch_id"]) as watching:
            assert received(watching)["steps"] == listed["steps"] == 1
            env.step(CountAction(amount=4))
            with pytest.raises(Exception, match="not to my taste"):
                env.step(CountAction(amount=1, mischief="raise"))
            env.step(CountAction(amount=5))
            rows = rows_of(watching, 3)
            env.close()
            end = received(watching)

    assert [(row["verb"], row.get("reward"), row.get("done")) for row in rows] == [
        ("step", 4.0, False), ("step", None, None), ("step", 5.0, True)
    ]  # fmt: skip
    assert json.loads(rows[0]["data"])["amount"] == 4
    assert "not to my taste" in rows[1]["error"]
    assert end == {"ended": True, "message": "The session has ended."}


def test_a_watcher_cannot_play_and_receives_no_sessions_id(serving):
    url = serving(create_app(CountingEnvironment, config=WATCHABLE))
    with CountEnv(url) as env:
        env.reset()
        (listed,) = sessions_of(url)
        with live(url, listed["watch_id"]) as watching:
            first = watching.recv(timeout=10)
            watching.send('{"type": "step", "data": {"amount": 1}}')
            assert env.state().total == 0
        session_id = env.session_id

        assert session_id not in first + json.dumps(listed)
        assert httpx.get(f"{url}/state", headers={"X-Session-Id": listed["watch_id"]}).status_code == 404


def test_a_session_that_does_not_exist_is_named(serving):
    url = serving(create_app(CountingEnvironment, config=WATCHABLE))
    with live(url, "0123456789abcdef") as watching:
        assert received(watching)["ended"] is True


def test_nothing_is_watched_without_consent_or_the_token(serving):
    closed = serving(create_app(CountingEnvironment))
    guarded = serving(create_app(CountingEnvironment, config=ServerConfig(allow_watching=True, token="sesame")))

    assert httpx.get(f"{closed}/web/watch/sessions").status_code == 404
    assert "watch" not in httpx.get(f"{closed}/web/").text
    assert httpx.get(f"{guarded}/web/watch/sessions").status_code == 401
    for url in (closed, guarded):
        with pytest.raises(InvalidStatus), live(url, "0123456789abcdef"):
            pass


def test_a_page_of_another_site_watches_nothing(serving):
    url = serving(create_app(CountingEnvironment, config=WATCHABLE))
    with pytest.raises(InvalidStatus), live(url, "0123456789abcdef", origin="http://evil.example"):
        pass


def test_a_slow_watcher_receives_how_many_verbs_it_missed(serving):
    url = serving(create_app(CountingEnvironment, config=WATCHABLE))
    with CountEnv(url) as env:
        env.reset(start=-10_000)
        with live(url, sessions_of(url)[0]["watch_id"]) as watching:
            received(watching)
            for _ in range(1000):
                env.step(CountAction(amount=1))
            num_rows = num_dropped = 0
            while num_rows + num_dropped < 1000:
                message = received(watching)
                num_rows, num_dropped = num_rows + len(message["verbs"]), num_dropped + message["num_dropped"]

    assert message["steps"] == 1000
    assert [part["value"] for part in message["view"] if part["name"] == "total"] == [-9_000]


def test_sessions_of_all_workers_are_listed_and_watched():
    with two_workers("--allow-watching") as server, clients(server.base_url, 2) as envs:
        listed = sessions_of(server.base_url)
        assert {row["watch_id"][:2] for row in listed} == {"w0", "w1"}
        for row in listed:
            with live(server.base_url, row["watch_id"]) as watching:
                received(watching)
                for env in envs:
                    env.step(CountAction(amount=1))
                assert rows_of(watching, 1)[0]["reward"] == 1.0


def test_a_person_watches_a_game_while_a_client_plays_it(page, serving):
    url = serving(create_app(OpenSpielEnvironment, config=WATCHABLE))
    with OpenSpielEnv(url) as env:
        result = env.reset(game_name="tic_tac_toe", seed=3)
        page.goto(f"{url}/web/")
        page.get_by_role("link", name="Watch").click()
        page.locator("#sessions button").click()
        expect(page.locator("#num-steps")).to_have_text("0")
        while not result.done:
            result = env.step(OpenSpielAction(action_id=result.observation.legal_actions[0]))
        expect(page.locator("#verbs tr").first).to_contain_text("over")
        expect(page.locator("table.grid td").first).to_be_visible()
        expect(page.locator("#return")).to_have_text(f"{result.reward:g}")
        screenshot(page, "watch")
        assert serious_violations(page) == []
    expect(page.locator("#watch-alert")).to_have_text("The session has ended.")
