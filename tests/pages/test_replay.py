"""The page of `openenv replay --web`, in a browser."""

import json
import re
import signal
from collections.abc import Callable, Iterator
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from playwright.sync_api import Page, expect

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.generic_client import GenericEnvClient
from openenv.evaluation.replay import ReplayedRequest
from openenv.pages.replay import replay_app, returns
from openenv.web.views import ObservationView
from tests.browser import NARROW, is_as_wide_as_its_screen, loaded_bytes, screenshot, serious_violations
from tests.conftest import running
from tests.pages.page_command import page_of
from tests.pages.run_files import HOSTILE
from tests.pages.walk_env import WalkEnvironment, WalkObservation

pytestmark = pytest.mark.process

NUM_STEPS = 1000
DIFFERENT = (601, 801)
"""Numbers of requests, from 1, whose recording is changed."""


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A session of a reset and 1,000 steps. Two of its lines are changed: the replay differs there."""
    folder = tmp_path_factory.mktemp("recordings")
    rng = Random(0)
    app = create_app(WalkEnvironment, config=ServerConfig(record_dir=folder))
    with running(app) as url, GenericEnvClient(url) as env:
        env.reset(seed=3)
        for _ in range(NUM_STEPS):
            env.step({"direction": rng.choice(["left", "right", "right"])})
        path = (folder / f"{env.session_id}.jsonl").rename(folder / "walk.jsonl")
    lines = path.read_text().splitlines()
    for number in DIFFERENT:
        lines[number] = json.dumps({**json.loads(lines[number]), "reward": -5.0})
    path.write_text("\n".join(lines) + "\n")
    return path


@pytest.fixture(scope="module")
def url(recording: Path) -> Iterator[str]:
    """The page of the recording, served by the command."""
    with page_of("replay", str(recording), "--env", "tests.pages.walk_env:WalkEnvironment") as (url, process):
        yield url
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=30)
    assert process.returncode == 130


def test_a_recording_of_1000_steps_is_stepped_through_by_buttons_keys_and_slider(page: Page, url: str) -> None:
    page.goto(url)
    where, request = page.locator("#steps output"), page.locator("#request")
    expect(where).to_have_text("1 of 1,001")
    expect(request).to_contain_text("reset")
    expect(request).to_contain_text("seed3")

    page.get_by_role("button", name="Forward").click()
    expect(request).to_contain_text("direction")
    page.keyboard.press("End")
    expect(where).to_have_text("1,001 of 1,001")
    expect(request).to_contain_text("line of the file1002")
    for _ in range(100):
        page.keyboard.press("ArrowLeft")
    expect(where).to_have_text("901 of 1,001")
    expect(request).to_contain_text("line of the file902")
    expect(page.locator("#observation table.grid")).to_be_visible()
    page.get_by_role("slider").fill("500")
    expect(request).to_contain_text("line of the file501")
    assert page.url.endswith("#500")
    page.keyboard.press("Home")
    expect(where).to_have_text("1 of 1,001")


def test_stepping_asks_for_single_observations_and_for_each_once(page: Page, url: str) -> None:
    asked: list[str] = []  # and answered: Chromium fails requests while Docker's tests make network interfaces
    page.on("requestfinished", lambda request: asked.extend(re.findall(r"/requests/\d+$", request.url)))
    page.goto(url)
    where = page.locator("#steps output")
    expect(where).to_have_text("1 of 1,001")  # keys pressed earlier are lost
    for _ in range(50):
        page.keyboard.press("ArrowRight")
    expect(where).to_have_text("51 of 1,001")
    for _ in range(50):
        page.keyboard.press("ArrowLeft")
    expect(where).to_have_text("1 of 1,001")

    assert len(asked) == len(set(asked))
    assert 51 <= len(asked) <= 70


def test_the_requests_where_the_replay_goes_another_way_are_marked_and_jumped_to(page: Page, url: str) -> None:
    page.goto(url)
    expect(page.locator("#differing")).to_contain_text("2 of 1001 requests differ")
    expect(page.locator("#chart .mark")).to_have_count(2)

    page.get_by_role("button", name="Next difference").click()
    expect(page.locator("#steps output")).to_have_text("601 of 1,001")
    expect(page.locator("#differences")).to_contain_text("reward was -5.0")
    screenshot(page, "replay")
    assert serious_violations(page) == []
    page.keyboard.press("n")
    expect(page.locator("#steps output")).to_have_text("801 of 1,001")
    page.get_by_role("link", name="step: reward").first.click()
    expect(page.locator("#steps output")).to_have_text("601 of 1,001")


def test_the_number_in_the_url_is_where_the_page_begins(page: Page, url: str) -> None:
    page.goto(f"{url}/#42")

    expect(page.locator("#steps output")).to_have_text("42 of 1,001")
    expect(page.locator("#request")).to_contain_text("line of the file43")


def test_html_in_observations_and_actions_is_shown_and_does_not_run(
    page: Page, served: Callable[[FastAPI], str]
) -> None:
    line = {"verb": "step", "data": {HOSTILE: HOSTILE}, "observation_sha256": HOSTILE, "reward": HOSTILE}
    outcome = {"validity": "invalid", "message": HOSTILE, "code": HOSTILE}
    observation = {"board": [[HOSTILE, "a"], ["b", "c"]], "note": HOSTILE, HOSTILE: 3, "metadata": {HOSTILE: HOSTILE}}
    request = ReplayedRequest(recorded=line, outcome=outcome, observation=observation)
    page.goto(served(replay_app(HOSTILE, [request], ObservationView(WalkObservation))))
    expect(page.locator("#differences")).to_contain_text(HOSTILE)
    expect(page.locator("#observation")).to_contain_text(HOSTILE)
    expect(page.get_by_role("heading", level=1)).to_contain_text(HOSTILE)
    assert page.evaluate("window.attacked") is None


def test_the_page_of_a_replay_is_light_and_narrow(page: Page, url: str) -> None:
    page.set_viewport_size(NARROW)

    assert loaded_bytes(page, url) < 100_000
    expect(page.locator("#observation table.grid")).to_be_visible()
    assert is_as_wide_as_its_screen(page)


def test_an_unknown_request_is_refused_in_words(url: str) -> None:
    response = httpx.get(f"{url}/requests/5000")

    assert (response.status_code, response.json()["detail"]) == (
        404, "there is no request 5001: the recording has 1001",
    )  # fmt: skip


def test_a_restored_session_has_the_return_of_its_snapshot() -> None:
    def request(verb: str, reward: float | None = None, **data: Any) -> ReplayedRequest:
        return ReplayedRequest(recorded={"verb": verb, "data": data}, outcome={"reward": reward})

    requests = [
        request("reset"), request("step", 1.0), request("save", token="a"), request("step", 2.0),
        request("restore", token="a"), request("step", -1.0), request("reset"),
    ]  # fmt: skip
    assert returns(requests) == [0.0, 1.0, 1.0, 3.0, 1.0, 0.0, 0.0]
