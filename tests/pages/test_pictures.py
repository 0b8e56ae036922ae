"""The pages of runs, replays, comparisons and reports in each of their states fit both widths and can be read."""

import json
import re
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from playwright.sync_api import Page, expect

from openenv.auto.environment import ServedEnvironment, named_environment
from openenv.evaluation.intervals import EpisodeOutcome, EpisodeResult
from openenv.evaluation.replay import ReplayedRequest
from openenv.pages.compare import compare_app
from openenv.pages.live_results import LiveResults
from openenv.pages.matches import Matches
from openenv.pages.replay import replay_app
from openenv.pages.runs import runs_app
from openenv.policies import make_policy
from openenv.rl.reports.report import write_report
from openenv.rl.reports.results import PlayerResult, save_results
from openenv.rl.reports.run_state import failure_kept, running
from openenv.web.views import ObservationView
from tests.pages.pictures import Pictures, pictures
from tests.pages.run_files import make_run, transcript, write_transcripts
from tests.pages.walk_env import WalkObservation

__all__ = ["pictures"]
pytestmark = pytest.mark.process

Served = Callable[[FastAPI], str]

FAILURE = "CUDA out of memory. Tried to allocate 2.00 GiB: lower trainer.token_budget, or model.dtype"
DIGEST = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"


def made_run(folder: Path, name: str, *, num_steps: int, level: float = 1.0) -> Path:
    run_dir = make_run(folder, name, steps=range(1, num_steps + 1), level=level)
    prompt = "<|user|> You have J and 7, hard 17. The dealer shows J. <|end|> <|assistant|>"
    long_reply, reason = "I would like to take another card please", "the reply names no legal action"
    write_transcripts(
        run_dir,
        transcript(1, "won", "hit", prompt=prompt),
        transcript(11, "lost", "stand", prompt=prompt),
        transcript(21, "unparseable", long_reply, prompt=prompt, reason=reason),
    )
    return run_dir


def failed_run(folder: Path, name: str) -> Path:
    run_dir = made_run(folder, name, num_steps=12)
    with pytest.raises(RuntimeError), running(run_dir), failure_kept(run_dir):
        raise RuntimeError(FAILURE)
    return run_dir


def finished_run(folder: Path, name: str) -> Path:
    run_dir = made_run(folder, name, num_steps=100)
    before, after = {"hard 16": {"hit": 3, "stand": 4}}, {"hard 16": {"hit": 3, "stand": 1}}
    results = [
        player("random", "baseline", 0.284, -0.39),
        player("model before GRPO", "before", 0.31, -0.33, num_unparseable=12, decisions=before),
        player("model after GRPO", "after", 0.431, -0.045, decisions=after),
        player("optimum", "optimum", 0.433, -0.04),
    ]
    save_results(run_dir, results)
    turns = [["cards 10 6 dealer 9", "hit"], ["cards 10 6 4 dealer 9", "stand"]]
    game = {"seed": 5, "after": {"turns": turns, "outcome": "lost", "return": -1.0, "reason": ""}}
    (run_dir / "games.json").write_text(json.dumps([game, game]))
    write_report(run_dir)
    return run_dir


def player(name: str, role: Any, win_rate: float, mean_return: float, **fields: Any) -> PlayerResult:
    ends = (win_rate - 0.01, win_rate + 0.01), (mean_return - 0.02, mean_return + 0.02)
    return PlayerResult(
        name=name, role=role, win_rate=win_rate, win_interval=ends[0], mean_return=mean_return,
        return_interval=ends[1], num_games=20_000, **fields,
    )  # fmt: skip


@pytest.mark.finding("pages fit their window, name the game, and lead with what a person looks at")
def test_runs_empty(page: Page, pictures: Pictures, served: Served, tmp_path: Path) -> None:
    page.goto(served(runs_app(tmp_path)))
    expect(page.locator("#none")).to_contain_text("openenv train")
    expect(page.get_by_role("heading", level=2)).to_have_count(0)  # nothing without values is shown
    pictures.take("runs-empty", headline="Runs")


@pytest.mark.finding("pages fit their window, name the game, and lead with what a person looks at")
def test_runs_running_before_and_after_the_first_step(
    page: Page, pictures: Pictures, served: Served, tmp_path: Path
) -> None:
    waiting, run_dir = make_run(tmp_path, "waiting", steps=()), made_run(tmp_path, "blackjack", num_steps=23)
    with running(waiting), running(run_dir):
        page.goto(f"{served(runs_app(tmp_path))}/#run=waiting")
        expect(page.locator("#runs tr", has_text="waiting")).to_contain_text("running")
        expect(page.locator("#chart")).to_contain_text("wait for its first step")
        expect(page.locator("#chart svg")).to_be_hidden()
        pictures.take("runs-starting", headline="Runs")
        page.get_by_label("Show blackjack").check()
        page.get_by_label("Show waiting").uncheck()
        expect(page.get_by_role("article")).to_have_count(3)
        expect(page.locator("#chart svg")).to_have_attribute("aria-label", re.compile("blackjack: 23 values"))
        pictures.take("runs-running", headline="Runs")


@pytest.mark.finding("pages fit their window, name the game, and lead with what a person looks at")
def test_runs_failed(page: Page, pictures: Pictures, served: Served, tmp_path: Path) -> None:
    failed_run(tmp_path, f"a-run-with-a-long-name-of-several-words-and-{DIGEST}")
    page.goto(served(runs_app(tmp_path)))
    expect(page.locator("#runs tbody")).to_contain_text(FAILURE)
    expect(page.get_by_role("article")).to_have_count(3)
    pictures.take("runs-failed", headline="Runs")


@pytest.mark.finding("pages fit their window, name the game, and lead with what a person looks at")
def test_runs_finished(page: Page, pictures: Pictures, served: Served, tmp_path: Path) -> None:
    finished_run(tmp_path, "blackjack")
    made_run(tmp_path, "other", num_steps=60, level=0.7)
    (make_run(tmp_path, "broken") / "config.json").write_text("{")
    page.goto(f"{served(runs_app(tmp_path))}/#run=blackjack&run=other")
    expect(page.locator("#runs tr", has_text="blackjack")).to_contain_text("finished")
    expect(page.locator("#runs tr", has_text="broken")).to_contain_text("not readable")
    expect(page.get_by_role("article")).to_have_count(3)
    page.get_by_label("all keys").check()
    expect(page.get_by_role("row", name="env[0].name")).to_be_visible()
    pictures.take("runs-finished", headline="Runs")


@pytest.mark.parametrize("make", [failed_run, finished_run])
@pytest.mark.finding("pages fit their window, name the game, and lead with what a person looks at")
def test_the_report_of_a_run(page: Page, pictures: Pictures, tmp_path: Path, make: Callable[..., Path]) -> None:
    write_report(make(tmp_path, "blackjack"))
    page.goto((tmp_path / "blackjack" / "report.html").as_uri())
    page.locator("summary", has_text="Settings of the run").click()
    reward = page.locator("figure", has=page.locator("figcaption", has_text=re.compile("^Reward$"))).locator("svg")
    expect(reward).to_have_attribute("aria-label", re.compile(r"^Reward\. reward: \d+ values, from "))
    expect(reward.locator("path")).to_have_count(2)  # the values, faint, and their mean
    assert page.locator("figure").count() == page.locator("figure svg.chart").count()
    pictures.take(f"report-{make.__name__.removesuffix('_run')}", headline="blackjack")


@pytest.mark.finding("pages fit their window, name the game, and lead with what a person looks at")
def test_the_report_of_an_empty_run(page: Page, pictures: Pictures, tmp_path: Path) -> None:
    write_report(make_run(tmp_path, "blackjack", steps=()))
    page.goto((tmp_path / "blackjack" / "report.html").as_uri())
    pictures.take("report-empty", headline="blackjack")


def replayed(number: int, *, differs: bool = False) -> ReplayedRequest:
    outcome = {"validity": "valid", "message": "", "observation_sha256": DIGEST, "reward": 0.5, "done": False}
    line: dict[str, Any] = {"verb": "step", "data": {"direction": "right"}, **outcome}
    if number == 0:
        line |= {"verb": "reset", "data": {"seed": 3}}
    if differs:
        line |= {"observation_sha256": DIGEST[::-1], "reward": -5.0}
    seen = {"board": [list("......"), list(".@....")], "place": number % 6, "note": f"{number} to go"}
    return ReplayedRequest(recorded=line, outcome=outcome, observation=seen)


@pytest.mark.parametrize(
    ("state", "requests", "at"),
    [
        ("empty", [], 1),
        ("finished", [replayed(number) for number in range(40)], 20),
        ("failed", [replayed(number, differs=number in (3, 30)) for number in range(40)], 4),
    ],
)
@pytest.mark.finding("pages fit their window, name the game, and lead with what a person looks at")
def test_the_replay(
    page: Page, pictures: Pictures, served: Served, state: str, requests: list[ReplayedRequest], at: int
) -> None:
    name = f"walk-{DIGEST}.jsonl"
    page.goto(f"{served(replay_app(name, requests, ObservationView(WalkObservation)))}/#{at}")
    expect(page.locator("#steps output")).to_have_text(f"{at} of 40" if requests else "none")
    found = {"empty": "has no request", "finished": "as recorded", "failed": "2 of 40"}
    expect(page.locator("#differing")).to_contain_text(found[state])
    page.wait_for_load_state("networkidle")
    pictures.take(f"replay-{state}", headline=name)


@pytest.fixture(scope="module")
def catch() -> Iterator[ServedEnvironment]:
    with named_environment("openspiel").served() as served:
        yield served


@pytest.mark.finding("pages fit their window, name the game, and lead with what a person looks at")
def test_the_comparison(page: Page, pictures: Pictures, served: Served, catch: ServedEnvironment) -> None:
    names = ["smart", "random", "llm:qwen3-0.6b@http://127.0.0.1:8001/v1/of-a-server-with-a-long-name"]
    results = LiveResults(names, 10)

    def make(name: str, seed: int) -> Any:
        return make_policy("random" if ":" in name else name, seed=seed)

    def add(policy: int, *outcomes: EpisodeOutcome) -> None:
        for outcome in outcomes:
            reward = 1.0 if outcome == "won" else -1.0
            result = EpisodeResult(seed=0, total_reward=reward, success_return=1.0, num_steps=9, outcome=outcome)
            results.add(policy, result)

    policies = [make(name, seed) for seed, name in enumerate(names)]
    with closing(Matches(catch, make, policies, results, reset_kwargs={"game_name": "catch"})) as matches:
        view = ObservationView(catch.observation_class)
        page.goto(served(compare_app("openspiel: catch", results, matches, view)))
        expect(page.locator("#results tbody tr")).to_have_count(3)
        expect(page.get_by_text("No episode has ended yet")).to_be_visible()
        pictures.take("compare-empty", headline="openspiel: catch")
        add(0, *["won"] * 4)
        add(1, "won", "lost", "lost")
        expect(page.locator("#results")).to_contain_text("3 of 10")
        pictures.take("compare-running", headline="openspiel: catch")
        add(0, *["won"] * 6)
        add(1, "won", *["lost"] * 6)
        add(2, *["lost"] * 10)
        expect(page.locator("#results tr").last).to_contain_text("10 of 10")
        page.get_by_role("button", name="Play").click()
        expect(page.locator("#outcome-1")).to_contain_text("9 steps")
        for _ in range(4):
            page.keyboard.press("ArrowRight")
        expect(page.locator("#steps output")).to_have_text("5 of 10")
        pictures.take("compare-finished", headline="openspiel: catch")
        page.get_by_label("Seed", exact=True).fill("-1")
        page.get_by_role("button", name="Play").click()
        expect(page.locator("#match-alert")).to_contain_text("Seed: give a whole number")
        pictures.take("compare-failed", headline="openspiel: catch")
