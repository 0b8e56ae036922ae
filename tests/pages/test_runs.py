"""The page of `openenv runs`, in a browser."""

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import httpx
import pytest
from fastapi import FastAPI
from playwright.sync_api import Page, expect

from openenv.core.env_server.config import ServerConfig
from openenv.pages.runs import runs_app
from openenv.rl.reports.results import StepLog
from openenv.rl.reports.run_state import failure_kept, running
from tests.browser import NARROW, SCREENSHOTS, is_as_wide_as_its_screen, loaded_bytes, screenshot, serious_violations
from tests.cli.commands import OPENENV, run
from tests.pages.run_files import HOSTILE, append_steps, make_run, transcript, write_transcripts

pytestmark = pytest.mark.process

Served = Callable[[FastAPI], str]

TINY_RUN = """
name: tiny
env: {name: openspiel, reset: {game_name: catch}}
model: {hidden_size: 32, num_layers: 1}
group_size: 4
groups_in_flight: 8
pretrain: {max_episodes: 300, max_decisions: 2000, steps: 120, batch_size: 64}
trainer: {training: {steps: 8}}
replay_buffer: {batch_decisions: 100}
evaluation: {num_games: 16, sessions: 16}
checkpoint: {folder: FOLDER}
"""


def chart(page: Page):
    return page.get_by_role("img", name=re.compile("Reward|Win rate|Curves|Entropy"))


def row_of(page: Page, name: str):
    return page.locator("#runs tbody tr").filter(has=page.get_by_label(f"Show {name}", exact=True))


def test_a_curve_grows_while_steps_are_appended(page: Page, served: Served, tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, "tiny", steps=range(1, 11))
    known: list[int] = []
    page.on("request", lambda request: known.extend(map(int, re.findall(r"/curve\?.*after=(\d+)", request.url))))
    with running(run_dir):
        page.goto(served(runs_app(tmp_path)))
        expect(row_of(page, "tiny")).to_contain_text("running")
        expect(chart(page)).to_have_attribute("aria-label", re.compile("tiny: 10 values"))

        append_steps(run_dir, range(11, 31))

        expect(chart(page)).to_have_attribute("aria-label", re.compile("tiny: 30 values"))
        expect(row_of(page, "tiny")).to_contain_text("30 of 100")
    expect(row_of(page, "tiny")).to_contain_text("ended early")
    assert known == sorted(known), "points are kept, and only new ones are asked for"
    with pytest.raises(ValueError, match="broke"), running(run_dir), failure_kept(run_dir):
        raise ValueError("the table broke")
    expect(row_of(page, "tiny")).to_contain_text("failed: ValueError: the table broke")


def test_the_evaluations_of_a_run_are_metrics_whose_points_are_joined(
    page: Page, served: Served, tmp_path: Path
) -> None:
    run_dir = make_run(tmp_path, "tiny", steps=range(1, 20))
    for step in (20, 40):
        evaluated = {"step": step, "reward": 0.5, "eval/greedy/win_rate": step / 100, "eval/score": 0.1}
        StepLog(run_dir / "metrics.jsonl", first_step=step - 1).append(evaluated)
        append_steps(run_dir, range(step + 1, step + 20))
    page.goto(served(runs_app(tmp_path)))

    page.get_by_label("Metric").select_option("eval/greedy/win_rate")

    curve = page.get_by_role("img", name=re.compile("tiny: 2 values"))
    expect(curve).to_be_visible()
    expect(curve.locator("path[d*=L]").first).to_be_attached()


def test_a_collapse_is_named_and_marked_where_it_appeared(page: Page, served: Served, tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, "stuck", steps=range(1, 11))
    append_steps(run_dir, range(11, 14), collapse="one action")

    page.goto(served(runs_app(tmp_path)))

    expect(row_of(page, "stuck")).to_contain_text("collapsed: one action")
    expect(chart(page).locator(".mark")).to_have_count(1)
    screenshot(page, "runs-collapsed")
    append_steps(run_dir, range(14, 16))
    expect(row_of(page, "stuck")).not_to_contain_text("collapsed")
    expect(chart(page).locator(".mark")).to_have_count(1)


def test_only_the_points_that_are_new_are_sent(served: Served, tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, "tiny", steps=range(1, 11))
    url = f"{served(runs_app(tmp_path))}/curve?run=tiny&metric=reward"
    whole = httpx.get(url).json()
    append_steps(run_dir, [11])

    grown = httpx.get(f"{url}&generation={whole['generation']}&after=10").json()
    of_another_file = httpx.get(f"{url}&generation={whole['generation'] + 1}&after=10").json()

    assert (len(whole["points"]), [step for step, _ in grown["points"]], grown["first"]) == (10, [11], 10)
    assert (len(of_another_file["points"]), of_another_file["first"]) == (11, 0)


def test_a_run_that_begins_again_is_drawn_from_its_new_file(page: Page, served: Served, tmp_path: Path) -> None:
    make_run(tmp_path, "tiny", steps=range(1, 31))
    page.goto(served(runs_app(tmp_path)))
    expect(chart(page)).to_have_attribute("aria-label", re.compile("tiny: 30 values"))

    (tmp_path / "tiny").rename(tmp_path / "tiny.1")
    make_run(tmp_path, "tiny", steps=range(1, 6))

    expect(chart(page)).to_have_attribute("aria-label", re.compile("tiny: 5 values"))
    expect(row_of(page, "tiny.1")).to_contain_text("30 of 100")


def test_a_real_run_is_followed_to_its_end(page: Page, served: Served, tmp_path: Path) -> None:
    configuration = tmp_path / "tiny.yaml"
    configuration.write_text(TINY_RUN.replace("FOLDER", str(tmp_path / "runs")))
    url = served(runs_app(tmp_path / "runs"))
    page.goto(url)
    expect(page.get_by_text("There is no run here yet")).to_be_visible()

    log = (tmp_path / "log").open("w")
    process = subprocess.Popen([*OPENENV, "train", str(configuration)], stdout=log, stderr=log)
    with log:
        row = row_of(page, "tiny")
        expect(row).to_contain_text("running", timeout=120_000)
        expect(chart(page)).to_have_attribute("aria-label", re.compile("tiny: [1-8] values"), timeout=120_000)
        assert process.wait(timeout=120) == 0, (tmp_path / "log").read_text()

    expect(row).to_contain_text("finished")
    expect(row).to_contain_text("8 of 8")
    expect(row).to_contain_text("after GRPO")
    expect(page.locator("#found")).to_contain_text("newest first")
    row.get_by_role("link", name="report").click()
    expect(page.get_by_role("heading", name="tiny")).to_be_visible()
    expect(page.locator("figure", has_text="Win rate").first.locator("svg path").first).to_be_visible()
    page.go_back()


def test_two_runs_are_laid_over_each_other_and_read_by_keyboard(
    page: Page, served: Served, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pictures = os.environ.get(SCREENSHOTS)
    if pictures:
        monkeypatch.setenv(SCREENSHOTS, str(Path(pictures).resolve()))
    monkeypatch.chdir(tmp_path)  # the page names the folder as it was given
    write_transcripts(make_run(Path("runs"), "slow", level=0.5), transcript(1, "won", "left"))
    make_run(Path("runs"), "quick", steps=range(1, 61), level=0.9)
    page.goto(served(runs_app(Path("runs"))))
    for name in ("slow", "quick"):
        page.get_by_label(f"Show {name}").check()
    page.get_by_label("Metric").select_option("reward")
    page.get_by_label("Mean over").fill("5")

    expect(chart(page)).to_have_attribute("aria-label", re.compile("quick: 60 values.*slow: 40 values|slow.*quick"))
    expect(page.locator("#chart path.faint")).to_have_count(2)
    slider = page.get_by_label("Read at step")
    slider.focus()
    page.keyboard.press("Home")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^step 1, "))
    page.keyboard.press("ArrowRight")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^step 2, .*slow 0.0.*"))
    page.keyboard.press("End")
    expect(slider).to_have_attribute("aria-valuetext", re.compile("^step 60, .*slow none"))
    page.get_by_text("Values as a table").click()
    expect(page.locator("#chart tbody tr")).to_have_count(60)
    page.get_by_text("Values as a table").click()
    screenshot(page, "runs")
    assert serious_violations(page) == []

    page.reload()
    expect(page.get_by_label("Show slow")).to_be_checked()
    expect(page.locator("#chart path.faint")).to_have_count(2)


def test_the_pointer_reads_a_chart_and_another_metric_is_drawn(page: Page, served: Served, tmp_path: Path) -> None:
    make_run(tmp_path, "tiny")
    page.goto(served(runs_app(tmp_path)))
    expect(chart(page)).to_have_attribute("aria-label", re.compile("Reward. tiny: 40 values"))

    chart(page).hover(position={"x": 60, "y": 100})
    expect(page.locator("output.where")).to_have_text("1")
    page.get_by_label("Metric").select_option("entropy")
    expect(chart(page)).to_have_attribute("aria-label", re.compile("Entropy .*tiny: 40 values, from 0.967"))


def test_an_answer_that_a_later_search_has_overtaken_is_not_shown(page: Page, served: Served, tmp_path: Path) -> None:
    transcripts = [transcript(step, "won", "left") for step in range(1, 31)]
    write_transcripts(make_run(tmp_path, "tiny"), *transcripts, transcript(31, "lost", "right"))
    page.goto(served(runs_app(tmp_path)))
    found, held = page.locator("#found"), []
    expect(found).to_have_text("31 of 31 transcripts, 20 shown, newest first")

    page.route("**/transcripts?*outcome=won*", lambda route: held.append(route))
    page.get_by_label("Outcome").select_option("won")
    page.get_by_label("Outcome").select_option("lost")
    expect(found).to_have_text("1 of 31 transcripts, 1 shown, newest first")
    with page.expect_response("**/transcripts?*outcome=won*"):
        held[0].continue_()
    page.get_by_label("With the words").fill("right")

    expect(found).to_have_text("1 of 31 transcripts, 1 shown, newest first")
    expect(page.get_by_role("article")).to_have_count(1)


def test_transcripts_are_filtered_by_outcome_and_by_their_words(page: Page, served: Served, tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, "tiny")
    write_transcripts(
        run_dir,
        transcript(1, "won", "left"),
        transcript(1, "lost", "right"),
        transcript(11, "push", "stay", prompt="the ball is at row 7"),
        transcript(11, "unparseable", "banana", reason="the reply names no legal action"),
        *(transcript(step, "won", "left") for step in range(12, 42)),
    )
    page.goto(served(runs_app(tmp_path)))
    found, articles = page.locator("#found"), page.get_by_role("article")

    expect(found).to_have_text("34 of 34 transcripts, 20 shown, newest first")
    page.get_by_role("button", name="More").click()
    expect(articles).to_have_count(34)
    for outcome in ("lost", "push", "unparseable"):
        page.get_by_label("Outcome").select_option(outcome)
        expect(articles).to_have_count(1)
        expect(articles).to_contain_text(f"{outcome}, reward")
    page.get_by_label("Outcome").select_option("")
    page.get_by_label("With the words").fill("ROW 7")
    page.keyboard.press("Enter")
    expect(found).to_have_text("1 of 34 transcripts, 1 shown, newest first")
    expect(page.locator("mark")).to_have_text("row 7")


def test_newer_transcripts_are_offered_while_others_are_read(page: Page, served: Served, tmp_path: Path) -> None:
    run_dir = make_run(tmp_path, "tiny")
    page.goto(served(runs_app(tmp_path)))
    expect(page.locator("#found")).to_have_text("This run has no transcripts yet.")
    write_transcripts(run_dir, transcript(1, "won", "left"))
    expect(page.get_by_role("article")).to_have_count(1)

    with (run_dir / "transcripts.jsonl").open("a") as file:
        file.write(json.dumps(transcript(11, "lost", "right")) + "\n")

    page.get_by_role("button", name="Show newer transcripts").click()
    expect(page.get_by_role("article").first).to_contain_text("Step 11: lost")


def test_the_settings_of_runs_are_compared_by_the_keys_that_differ(page: Page, served: Served, tmp_path: Path) -> None:
    make_run(tmp_path, "a", seed=1)
    make_run(tmp_path, "b", seed=2, group_size=16)
    page.goto(served(runs_app(tmp_path)))
    page.get_by_label("Show a").check()
    page.get_by_label("Show b").check()

    rows = page.locator("#settings tbody tr")
    expect(rows).to_have_count(2)
    expect(page.get_by_role("row", name="group_size")).to_contain_text("16")
    page.get_by_label("all keys").check()
    expect(page.get_by_role("row", name="env[0].name")).to_contain_text("openspiel")
    expect(page.locator("#settings tr.differ")).to_have_count(2)


def test_html_in_every_field_of_a_run_is_shown_and_does_not_run(page: Page, served: Served, tmp_path: Path) -> None:
    hostile = HOSTILE.replace("/", "\u2044")  # a folder's name has no slash
    run_dir = make_run(tmp_path, hostile, project=HOSTILE)
    write_transcripts(run_dir, transcript(1, "won", HOSTILE, prompt=HOSTILE, reason=HOSTILE))
    (run_dir / "metrics.jsonl").write_text(json.dumps({"step": 1, HOSTILE: 0.5, "reward": 0.1}) + "\n")
    (run_dir / "report.html").write_text(f"<h1>report</h1>{HOSTILE}")
    url = served(runs_app(tmp_path))
    page.goto(url)

    expect(page.get_by_role("article")).to_contain_text(HOSTILE)
    page.get_by_label("Metric").select_option(HOSTILE)
    page.get_by_label("all keys").check()
    expect(page.get_by_role("row", name="project")).to_contain_text(HOSTILE)
    page.get_by_label("With the words").fill("<script>")
    page.keyboard.press("Enter")
    expect(page.locator("mark").first).to_have_text("<script>")
    assert page.evaluate("window.attacked") is None
    policy = httpx.get(f"{url}/report", params={"run": hostile}).headers["content-security-policy"]
    assert re.search(r"script-src 'sha256-[\w+/=]+';", policy)
    assert "default-src 'none'" in policy
    assert "sandbox allow-scripts" in policy


def test_a_run_whose_files_cannot_be_read_is_named_beside_the_others(
    page: Page, served: Served, tmp_path: Path
) -> None:
    make_run(tmp_path, "good")
    broken = make_run(tmp_path, "broken")
    (broken / "config.json").write_text("{")
    page.goto(served(runs_app(tmp_path)))

    expect(row_of(page, "broken")).to_contain_text("not readable: JSONDecodeError")
    page.get_by_label("Show good").check()
    expect(chart(page)).to_have_attribute("aria-label", re.compile("good: 40 values"))


def test_the_page_is_light_narrow_and_allows_scripts_of_its_own_server_alone(
    page: Page, served: Served, tmp_path: Path
) -> None:
    write_transcripts(make_run(tmp_path, "a-run-with-a-long-name-of-several-words"), transcript(1, "won", "left " * 80))
    url = served(runs_app(tmp_path))
    page.set_viewport_size(NARROW)

    assert loaded_bytes(page, url) < 100_000
    expect(page.get_by_role("article")).to_have_count(1)
    assert is_as_wide_as_its_screen(page)
    assert "script-src 'self'" in httpx.get(f"{url}/").headers["content-security-policy"]


@pytest.mark.parametrize(
    "path", ["curve?run=..&metric=reward", "transcripts?run=no", "settings?run=no", "report?run=a"]
)
def test_an_unknown_run_is_refused_in_words(served: Served, tmp_path: Path, path: str) -> None:
    make_run(tmp_path, "a")
    response = httpx.get(f"{served(runs_app(tmp_path))}/{path}")

    assert response.status_code == 404
    assert "run '" in response.json()["message"]


def test_other_sites_and_other_machines_are_refused(served: Served, tmp_path: Path) -> None:
    url = served(runs_app(tmp_path))
    guarded = served(runs_app(tmp_path, ServerConfig(token="secret")))

    assert httpx.get(f"{url}/runs", headers={"Host": "evil.example"}).status_code == 403
    assert httpx.get(f"{url}/runs", headers={"Origin": "http://evil.example"}).status_code == 403
    assert httpx.get(f"{guarded}/runs").status_code == 401
    assert httpx.get(f"{guarded}/runs", headers={"Authorization": "Bearer secret"}).status_code == 200
    assert httpx.get(f"{guarded}/").headers["location"] == "login"
    done = run("runs", str(tmp_path), "--host", "0.0.0.0")
    assert (done.returncode, "OPENENV_TOKEN" in done.stderr) == (1, True)


def test_a_page_with_a_token_asks_for_it_once(page: Page, served: Served, tmp_path: Path) -> None:
    make_run(tmp_path, "tiny")
    page.goto(served(runs_app(tmp_path, ServerConfig(token="secret"))))
    page.get_by_label("Token").fill("secret")
    page.keyboard.press("Enter")

    expect(row_of(page, "tiny")).to_be_visible()
    assert "secret" not in page.url


def test_a_port_that_is_taken_is_named_with_the_remedy(served: Served, tmp_path: Path) -> None:
    port = served(runs_app(tmp_path)).rpartition(":")[2].partition("/")[0]
    done = run("runs", str(tmp_path), "--port", port)

    assert done.returncode == 1
    assert "Give another --port" in done.stderr
