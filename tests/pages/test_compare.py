"""The page of `openenv eval --web`, in a browser."""

import re
import signal
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import pytest
from fastapi import FastAPI
from playwright.sync_api import Page, expect

from openenv.auto.environment import ServedEnvironment, named_environment
from openenv.evaluation.intervals import EpisodeOutcome, EpisodeResult
from openenv.pages.compare import compare_app
from openenv.pages.live_results import LiveResults
from openenv.pages.matches import Matches
from openenv.policies import make_policy
from openenv.policies.base import Policy
from openenv.web.views import ObservationView
from tests.browser import NARROW, is_as_wide_as_its_screen, loaded_bytes, screenshot, serious_violations
from tests.pages.page_command import page_of
from tests.pages.run_files import HOSTILE

pytestmark = pytest.mark.process

Served = Callable[[FastAPI], str]
NAMES = ["smart", "random", "learning"]
CATCH = {"game_name": "catch"}


class BrokenPolicy(Policy):
    """A policy with a fault."""

    name = "broken"

    def select_action(self, observation: Any) -> Any:
        raise AttributeError(HOSTILE)


@pytest.fixture(scope="module")
def catch() -> Iterator[ServedEnvironment]:
    """A server that plays catch."""
    with named_environment("openspiel").served() as served:
        yield served


def policy_of(name: str, seed: int) -> Any:
    return BrokenPolicy() if name == "broken" else make_policy(name, seed=seed)


@pytest.fixture
def results() -> LiveResults:
    return LiveResults(NAMES, 10)


@pytest.fixture
def matches(catch: ServedEnvironment, results: LiveResults) -> Iterator[Matches]:
    policies = [policy_of(name, 0) for name in NAMES]
    with closing(Matches(catch, policy_of, policies, results, reset_kwargs=CATCH)) as playing:
        yield playing
    learned = policies[NAMES.index("learning")].episodes
    assert learned == 0, "a match is none of the episodes from which a policy learns"


@pytest.fixture
def url(served: Served, results: LiveResults, matches: Matches, catch: ServedEnvironment) -> str:
    return served(compare_app("openspiel", results, matches, ObservationView(catch.observation_class)))


def add(results: LiveResults, policy: int, *rewards: float, outcome: EpisodeOutcome | None = None) -> None:
    """Add episodes of a policy with these returns."""
    for reward in rewards:
        ended = outcome or ("won" if reward > 0 else "lost")
        results.add(policy, EpisodeResult(seed=0, total_reward=reward, success_return=1.0, num_steps=9, outcome=ended))


def row_of(page: Page, name: str):
    return page.locator("#results tbody tr").filter(has=page.get_by_role("rowheader", name=name, exact=True))


def test_the_table_and_the_plot_grow_while_policies_play(page: Page, url: str, results: LiveResults) -> None:
    page.goto(url)
    expect(row_of(page, "smart")).to_contain_text("0 of 10")
    add(results, 0, 1.0, 1.0)
    add(results, 1, 1.0, -1.0, -1.0)

    expect(row_of(page, "smart")).to_contain_text("100.0 % (34.2 % to 100.0 %)")
    expect(row_of(page, "random")).to_contain_text("-0.3333")
    add(results, 1, 0.0, outcome="unparseable")
    expect(row_of(page, "random")).to_contain_text("1 unparseable")
    expect(row_of(page, "smart").locator("td").first).to_have_text("1")
    label = re.compile(r"Win rate\. smart: 1; random: 0\.2500; learning: none yet")
    expect(page.locator("#win-rates")).to_have_attribute("aria-label", label)


def test_two_policies_play_one_seed_side_by_side(page: Page, url: str, results: LiveResults) -> None:
    page.goto(url)
    add(results, 0, *[1.0] * 10)
    add(results, 1, *[1.0] * 2, *[-1.0] * 8)
    expect(row_of(page, "random")).to_contain_text("10 of 10")
    page.get_by_label("Seed", exact=True).fill("2")
    page.get_by_role("button", name="Play").click()
    expect(page.locator("#outcome-0")).to_have_text("won, 9 steps")
    expect(page.locator("#outcome-1")).to_have_text(re.compile("(won|lost), 9 steps"))

    expect(page.locator("#turn-0")).to_contain_text("reset")
    page.keyboard.press("End")
    expect(page.locator("#steps output")).to_have_text("10 of 10")
    expect(page.locator("#turn-0")).to_contain_text("is over")
    page.get_by_role("button", name="Back").click()
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#steps output")).to_have_text("8 of 10")
    expect(page.locator("#turn-0")).to_contain_text(re.compile("action(left|right|stay)"))
    expect(page.locator("#turn-1")).to_contain_text(re.compile("action(left|right|stay)"))
    page.set_viewport_size({"width": 1100, "height": 1280})
    page.evaluate("scrollTo(0, 0)")
    screenshot(page, "compare")
    assert serious_violations(page) == []
    page.keyboard.press("Home")
    expect(page.locator("#observation-1 table.grid")).to_be_visible()
    first, second = (page.locator(f"#observation-{side}").inner_html() for side in (0, 1))
    assert first == second, "both begin from one state"


def test_a_policy_that_learns_plays_with_what_it_has_learned_once_its_episodes_are_over(
    page: Page, url: str, results: LiveResults
) -> None:
    page.goto(url)
    page.get_by_label("Second policy").select_option("learning")
    page.get_by_role("button", name="Play").click()
    expect(page.locator("#match-alert")).to_have_text(
        "learning is still learning. Try again when its episodes are over."
    )

    add(results, 2, *[1.0] * 10)
    page.get_by_role("button", name="Play").click()
    expect(page.locator("#outcome-1")).to_have_text(re.compile("(won|lost), 9 steps"))
    expect(page.locator("#match-alert")).to_be_empty()


def test_the_error_of_a_policy_is_shown_in_words(page: Page, served: Served, catch: ServedEnvironment) -> None:
    results = LiveResults(["smart", "broken"], 10)
    policies = [policy_of(name, 0) for name in results.names]
    with closing(Matches(catch, policy_of, policies, results, reset_kwargs=CATCH)) as matches:
        page.goto(served(compare_app("openspiel", results, matches, ObservationView(catch.observation_class))))
        page.get_by_role("button", name="Play").click()

        expect(page.locator("#match-alert")).to_have_text(f"AttributeError: {HOSTILE}")
        expect(page.locator("#outcome-0")).to_have_text("won, 9 steps")
        assert page.evaluate("window.attacked") is None


def test_a_wrong_seed_is_refused_in_words(page: Page, url: str) -> None:
    page.goto(url)
    page.get_by_label("Seed", exact=True).fill("-1")
    page.get_by_role("button", name="Play").click()

    expect(page.locator("#match-alert")).to_have_text("Seed: give a whole number from 0.")
    refused = httpx.post(f"{url}/matches", json={"policies": [0, 9], "seed": 0})
    assert (refused.status_code, "there is no policy 9" in refused.json()["detail"]) == (409, True)
    assert httpx.post(f"{url}/matches", json={"policies": [0], "seed": 0}).status_code == 422
    assert httpx.get(f"{url}/matches/99").json()["detail"] == "there is no match 99 any more: play it again"


def test_the_page_of_an_evaluation_is_light_narrow_and_runs_no_names(
    page: Page, served: Served, matches: Matches, catch: ServedEnvironment
) -> None:
    hostile = LiveResults([HOSTILE, "a policy with quite a long name"], 10)
    add(hostile, 0, 1.0)
    url = served(compare_app(HOSTILE, hostile, matches, ObservationView(catch.observation_class)))
    page.set_viewport_size(NARROW)

    assert loaded_bytes(page, url) < 100_000
    expect(row_of(page, HOSTILE)).to_be_visible()
    assert is_as_wide_as_its_screen(page)
    assert page.evaluate("window.attacked") is None


def test_an_evaluation_with_a_model_behind_an_endpoint_serves_its_page_until_it_is_interrupted(
    page: Page, serving: Served, tmp_path: Path
) -> None:
    endpoint = FastAPI()

    @endpoint.post("/v1/chat/completions")
    def complete(body: dict[str, Any]) -> Any:
        return {"choices": [{"message": {"role": "assistant", "content": "right"}}]}

    plot, model = tmp_path / "plot.png", f"llm:tiny@{serving(endpoint)}/v1"
    options = ["--game", "catch", "--policy", f"smart,random,{model}", "--episodes", "40", "--plot", str(plot)]
    with page_of("eval", "openspiel", *options) as (url, process):
        page.goto(url)
        expect(row_of(page, model)).to_contain_text("40 of 40", timeout=60_000)
        page.get_by_label("Second policy").select_option(model)
        page.get_by_role("button", name="Play").click()
        expect(page.locator("#outcome-1")).to_have_text(re.compile("(won|lost), 9 steps"))
        page.get_by_role("button", name="Forward").click(click_count=6)
        expect(page.locator("#turn-1")).to_contain_text("actionright")
        next(line for line in iter(process.stderr.readline, "") if "the results stay at" in line)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)

    assert process.returncode == 130
    assert "smart" in out
    assert plot.exists()
