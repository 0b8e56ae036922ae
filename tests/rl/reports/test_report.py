"""The report is one file that shows what there is, also when there is little."""

import html
import json
import math
import re
from pathlib import Path
from typing import Any

import pytest

from openenv.envs.measured import Optimum
from openenv.rl.reports.charts import Series, line_chart
from openenv.rl.reports.report import write_report
from openenv.rl.reports.results import (
    PlayerResult,
    StepLog,
    load_results,
    optimum_row,
    read_rows,
    save_results,
)
from openenv.rl.reports.run_state import failure_kept
from openenv.rl.reports.training_log import collapses

ROW = {
    "reward": 0.5,
    "return": -0.1,
    "win_rate": 0.4,
    "kl": 0.01,
    "entropy": 0.6,
    "num_episodes": 8,
    "training_s": 3.0,
    "decisions": {"hard 16": {"hit": 3, "stand": 1}, "hard 9": {"hit": 2}, "soft 18": {"stand": 1}},
}


def test_a_run_without_anything_has_a_report(tmp_path: Path) -> None:
    assert "Nothing has been evaluated yet" in write_report(tmp_path).read_text()


def test_the_report_shows_table_curves_situations_and_games(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "metrics.jsonl")
    for step in (1, 2, 3):
        log.append({"step": step, **ROW})
    after = PlayerResult(
        name="model after GRPO",
        role="after",
        win_rate=0.431,
        win_interval=(0.424, 0.438),
        mean_return=-0.05,
        return_interval=(-0.06, -0.04),
        num_games=20_000,
        decisions=ROW["decisions"],  # type: ignore[arg-type]
    )
    best = optimum_row(Optimum(-0.0425, 0.4328))
    save_results(tmp_path, [after, best])
    turns = [["cards 10 6 dealer 9", "hit<b>"]]
    game = {"seed": 5, "after": {"turns": turns, "outcome": "lost", "return": -1.0, "reason": ""}}
    (tmp_path / "games.json").write_text(json.dumps([game]))
    turn = {"prompt": "<|user|> cards 10 6", "reply": "stand<i>", "action": "stand", "reward": 0.0, "advantage": -0.375}
    episode = {"group": 8, "seed": 4, "outcome": "lost", "reason": "", "reward": -1.0}
    transcripts = StepLog(tmp_path / "transcripts.jsonl")
    transcripts.append({"step": 1, **episode, "turns": []}, {"step": 11, **episode, "turns": [turn]})

    page = write_report(tmp_path).read_text()

    assert "43.10%" in page
    assert "42.40% to 43.80%" in page
    assert "43.28%" in page
    for title in ("Reward", "Return of the game", "Win rate", "KL to the model", "Entropy", "P(hit) by situation"):
        assert title in page
    assert "P(hit) by hard total" in page
    assert "cards 10 6 dealer 9" in page
    assert "hit&lt;b&gt;" in page
    assert "Transcripts of step 11" in page
    assert "&lt;|user|&gt; cards 10 6" in page
    assert "<b>stand&lt;i&gt;</b> reward +0, advantage -0.375" in page
    assert "src=" not in page
    assert "href=" not in page
    assert "import " not in page


def test_the_report_shows_where_there_was_no_game_and_nothing_to_learn(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "metrics.jsonl")
    log.append({"step": 0, **ROW, "warning": None})
    log.append({"step": 1, **ROW, "rewards/style.brief/mean": 0.5, "warning": "all returns are <7>"})
    silent = PlayerResult(
        name="model",
        role="after",
        win_rate=0.0,
        win_interval=(0.0, 0.4),
        mean_return=math.nan,
        return_interval=(-math.inf, math.inf),
        num_games=6,
        num_unparseable=6,
    )
    nothing = PlayerResult(
        name="gone", role="after", win_rate=math.nan, win_interval=(0.0, 1.0), mean_return=math.nan, num_invalid=5
    )
    save_results(tmp_path, [silent, nothing])

    page = write_report(tmp_path).read_text()

    assert page.count("no finished game") == 1
    assert page.count("no return") == 2
    assert "Step 0" not in page
    shown = page.partition("<script")[0]
    assert "nan" not in shown
    assert "inf" not in shown.replace("info", "")
    assert "Step 1: all returns are &lt;7&gt;" in page
    assert "Score: style.brief" in page


def test_the_report_of_a_failed_run_names_the_failure(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), failure_kept(tmp_path):
        raise RuntimeError("out of <memory>")

    assert "The run failed. RuntimeError: out of &lt;memory&gt;" in write_report(tmp_path).read_text()


def test_the_report_has_a_curve_of_each_environment_of_a_mixture(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "metrics.jsonl")
    log.append({"step": 1, **ROW, "return/guess": 0.5, "level/a<b>.py": 0, "win_rate/guess": None})

    page = write_report(tmp_path).read_text()

    assert "Return of the game in guess" in page
    assert "Level of the curriculum in a&lt;b&gt;.py" in page
    assert "Win rate in guess" not in page


def test_results_are_read_back_as_they_were(tmp_path: Path) -> None:
    rows = [PlayerResult(name="random", role="baseline", win_rate=0.3, mean_return=-0.4, win_interval=(0.2, 0.4))]
    save_results(tmp_path, rows)

    loaded = load_results(tmp_path)

    assert (loaded[0].name, loaded[0].win_rate) == ("random", 0.3)


def test_a_line_that_was_cut_off_is_left_out(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"step": 2, "rew')

    assert read_rows(path) == [{"step": 1}]


def test_metrics_after_the_step_that_a_run_resumes_from_are_dropped(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    log = StepLog(path)
    for step in (1, 2, 3):
        log.append({"step": step})

    StepLog(path, first_step=2).append({"step": 3, "again": True})

    assert [row.get("again", False) for row in read_rows(path)] == [False, False, True]


def charts_of(page: str) -> dict[str, Any]:
    """The data of a page's charts, by their titles."""
    found = [json.loads(html.unescape(text)) for text in re.findall(r'data-chart="([^"]*)"', page)]
    return {chart["title"]: chart for chart in found}


def test_what_is_not_finite_is_a_gap_and_a_chart_without_points_is_left_out() -> None:
    points = [(0, 0.0), (1, math.nan), (2, 1.0)]
    chart = charts_of(line_chart("<t>", [Series(name="a", points=points)]))["<t>"]

    assert chart["series"][0]["points"] == [[0, 0.0], [1, None], [2, 1.0]]
    assert line_chart("t", [Series(name="a", points=[(0, math.nan)])]) == ""


def evaluated(step: int, prefix: str, win_rate: float | None) -> dict[str, Any]:
    return {
        "step": step,
        **ROW,
        "eval/score": 0.1 * step,
        f"{prefix}greedy/win_rate": win_rate,
        f"{prefix}greedy/win_rate_interval": [0.25, 0.5],
        f"{prefix}greedy/return": -0.1,
        f"{prefix}greedy/return_interval": None,
        f"{prefix}sampled/win_rate": 0.3,
        f"{prefix}sampled/win_rate_interval": [0.2, 0.4],
        f"{prefix}sampled/return": -0.2,
        f"{prefix}sampled/return_interval": [-0.3, -0.1],
        f"{prefix}pass@4": 0.7,
        f"{prefix}pass@4_interval": [0.6, 0.8],
    }


def test_the_report_draws_the_evaluations_with_their_intervals(tmp_path: Path) -> None:
    log = StepLog(tmp_path / "metrics.jsonl")
    log.append(evaluated(2, "eval/", 0.4), {"step": 3, **ROW}, evaluated(4, "eval/", None))

    page = write_report(tmp_path).read_text()

    section = page.split("Evaluations during training")[1].split("<h2>Training")[0]
    wins, returns = (charts_of(section)[f"{what} in evaluations"]["series"] for what in ("Win rate", "Return"))
    assert {line["name"]: len(line["intervals"]) for line in wins} == {"greedy": 1, "sampled": 2, "pass@4": 2}
    assert {line["name"]: len(line["intervals"]) for line in returns} == {"greedy": 0, "sampled": 2}
    assert "best checkpoint" not in section


def test_the_report_draws_the_evaluations_of_each_environment(tmp_path: Path) -> None:
    StepLog(tmp_path / "metrics.jsonl").append({**evaluated(2, "eval/a<b>/", 0.4), **evaluated(2, "eval/catch/", 0.4)})

    page = write_report(tmp_path).read_text()

    assert "Win rate in evaluations in a&lt;b&gt;" in page
    assert "Return in evaluations in catch" in page


def test_a_collapse_is_marked_where_it_appears(tmp_path: Path) -> None:
    rows = [{"step": step, **ROW, **({"collapse": "one action"} if step in (3, 4, 6) else {})} for step in range(1, 8)]
    StepLog(tmp_path / "metrics.jsonl").append(*rows)

    page = write_report(tmp_path).read_text()

    assert collapses(rows) == [(3, "one action"), (6, "one action")]
    assert "the policy collapsed, with these signs: one action (step 3), one action (step 6)." in page
    assert charts_of(page)["Reward"]["marks"] == [3, 6]


def test_the_report_shows_what_a_warm_start_has_learned(tmp_path: Path) -> None:
    assert "Warm start" not in write_report(tmp_path).read_text()
    learned = {
        "teacher": "<chart>", "num_episodes": 1200, "num_left_out": 3, "num_decisions": 2000, "mean_return": -0.04,
        "losses": [1.5, 0.5], "held_out": 200, "loss_before": 1.6, "loss_after": 0.1, "likeliest_before": 0.4,
        "likeliest_after": 0.99,
    }  # fmt: skip
    (tmp_path / "warm_start.json").write_text(json.dumps(learned))

    page = write_report(tmp_path).read_text()

    assert "2,000 replies of &lt;chart&gt; in 1,200 episodes, mean return -0.040; 3 episodes were left out" in page
    assert "the loss went from 1.600 to 0.100 nats per token" in page
    assert charts_of(page)["Loss of the warm start (nats per token)"]["xLabel"] == "batch"


@pytest.mark.finding("formats of others are followed: MCP, Gymnasium, pydantic, JSON and YAML")
def test_results_without_a_finished_game_are_strict_json_and_read_back(tmp_path: Path) -> None:
    silent = PlayerResult(
        name="mute", role="before", win_rate=0.0, mean_return=math.nan, win_interval=(0.0, 1.0),
        return_interval=(-math.inf, math.inf), num_unparseable=3,
    )  # fmt: skip

    save_results(tmp_path, [silent])
    (read,) = load_results(tmp_path)

    json.loads((tmp_path / "results.json").read_text(encoding="utf-8"), parse_constant=pytest.fail)
    assert math.isnan(read.mean_return)
    assert (read.return_interval, read.win_interval) == ((-math.inf, math.inf), (0.0, 1.0))
