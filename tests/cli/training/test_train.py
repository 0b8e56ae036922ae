"""`openenv train` trains from one YAML file."""

import io
import math
import os
import re
import signal
import subprocess
import time
from pathlib import Path

import pytest
from rich.console import Console
from rich.table import Table
from typer.testing import CliRunner

from openenv.cli.main import app
from openenv.cli.train import remarks, results_table, table_over_runs
from openenv.rl.reports.results import PlayerResult
from openenv.rl.run import RunResult
from tests.cli.commands import OPENENV, run

pytestmark = pytest.mark.process

TINY_RUN = """
name: tiny
env: {name: openspiel, reset: {game_name: catch}}
model: {hidden_size: 32, num_layers: 1}
group_size: 4
rollout_threads: 8
reading: {max_episodes: 100, max_decisions: 400, steps: 5, batch_size: 64}
max_minutes: 10
trainer: {training: {steps: 100000}}
replay_buffer: {batch_decisions: 100}
evaluation: {num_games: 16, sessions: 16}
"""


def test_train_prints_the_table_and_writes_the_report(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY_RUN)
    done = run("train", "tiny.yaml", "--steps", "1", "--game", "tic_tac_toe", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    for player in ("random", "before GRPO (sampled)", "after GRPO (greedy)", "optimum"):
        assert player in done.stdout
    assert "data-chart=" in (tmp_path / "runs/tic_tac_toe/report.html").read_text()


def test_several_seeds_are_runs_of_their_own_and_a_table_of_their_means(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY_RUN)
    points = Path(__file__).parents[2] / "rl" / "points_env.py"
    where = ["--env", f"{points}:PointsEnvironment", "--seed", "7", "--seeds", "2", "--steps", "1"]
    done = run("train", "tiny.yaml", *where, cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    folders = sorted(folder.name for folder in (tmp_path / "runs").iterdir())
    assert [name.rsplit("-", 1)[1] for name in folders] == ["seed7", "seed8"]
    assert all(name.endswith("PointsEnvironment-seed7") for name in folders[:1])
    assert "Means of 2 runs" in done.stdout
    means = done.stdout.split("Means of 2 runs")[1]
    assert "random" in means
    assert "after GRPO (greedy)" in means


def test_the_means_over_runs_have_intervals_over_runs():
    runs = [
        [result("model", win_rate, mean), result("silent", math.nan, math.nan)]
        for win_rate, mean in ((0.4, -0.2), (0.5, 0.0), (0.6, 0.2))
    ]

    text = printed(table_over_runs(runs))

    # Student's t for two degrees of freedom: 4.303 standard errors of 0.1 / sqrt(3)
    assert "50.00% [25.2, 74.8]" in text
    assert "+0.0000 [-0.497, +0.497]" in text
    assert re.search(r"silent +no finished game +no return +0", text)


def test_a_player_without_a_finished_game_is_shown_as_such():
    text = printed(results_table([result("model", 0.0, math.nan), result("one game", 1.0, 3.0, num_games=1)]))

    assert re.search(r"model +0.00% +no return", text)
    assert "nan" not in text
    assert "inf" not in text


def result(name: str, win_rate: float, mean: float, num_games: int = 10) -> PlayerResult:
    return PlayerResult(
        name=name,
        role="after",
        win_rate=win_rate,
        mean_return=mean,
        return_interval=(-math.inf, math.inf),
        num_games=num_games,
    )


def printed(table: Table) -> str:
    console = Console(width=120, record=True, file=io.StringIO())
    console.print(table)
    return console.export_text()


@pytest.mark.parametrize(
    ("number", "times", "code"), [(signal.SIGINT, 1, 130), (signal.SIGTERM, 1, 143), (signal.SIGTERM, 3, 143)]
)
@pytest.mark.finding("a lost server and Ctrl-C have a line at once, with how to go on")
def test_an_interrupted_training_writes_its_report(tmp_path, number, times, code):
    (tmp_path / "tiny.yaml").write_text(TINY_RUN)
    process = subprocess.Popen(
        [*OPENENV, "train", "tiny.yaml"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (line := process.stderr.readline()).startswith("train:"):
        assert line, "the run ended before its training"
    for _ in range(times):
        process.send_signal(number)
        time.sleep(0.1)
    _, errors = process.communicate(timeout=60)

    assert process.returncode == code, errors
    assert not re.search("Traceback|ignored in|destroyed|never awaited", errors)
    assert (tmp_path / "runs/tiny/report.html").exists()
    stopped = r"stopped after step \d+\. Report: runs/tiny/report\.html\. Go on with the same command and --resume\.$"
    assert re.search(stopped, errors.strip())


def test_ctrl_c_before_a_run_has_begun_names_no_step_of_an_earlier_one(tmp_path, monkeypatch):
    (tmp_path / "tiny.yaml").write_text(TINY_RUN)
    (tmp_path / "runs/tiny").mkdir(parents=True)
    for name, text in (("metrics.jsonl", '{"step": 2}\n'), ("config.json", "{}"), ("report.html", "")):
        (tmp_path / "runs/tiny" / name).write_text(text)
        os.utime(tmp_path / "runs/tiny" / name, (1, 1))
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("openenv.cli.train.run_blocking", interrupted)

    stopped = [CliRunner().invoke(app, ["train", "tiny.yaml", *options]).stderr for options in ([], ["--resume"])]

    assert "stopped before the run had begun" in stopped[0]
    assert "stopped after step 2" in stopped[1]


def interrupted(*_, **__):
    raise KeyboardInterrupt


def test_a_wrong_key_of_the_yaml_ends_with_the_right_one(tmp_path):
    (tmp_path / "wrong.yaml").write_text("group_sise: 4\n")
    done = run("train", "wrong.yaml", cwd=tmp_path)

    assert done.returncode == 1
    assert "group_size" in done.stderr


def test_the_remark_on_games_without_a_legal_reply_names_what_leaves_them_out():
    row = PlayerResult(name="before", role="before", win_rate=0.2, mean_return=0.9, num_games=10, num_unparseable=4)

    (remark,) = remarks([row])

    assert remark.startswith("before: 4 games ended by a reply that is not a legal action")
    assert remark.endswith("(not won, and left out of the mean return)")


def test_a_seed_that_has_learned_nothing_is_an_exit_code_after_the_others_have_run(tmp_path, monkeypatch):
    (tmp_path / "tiny.yaml").write_text(TINY_RUN)
    seeds: list[int] = []

    def run_without_training(config, **_):
        seeds.append(config.seed)
        failure = "" if config.seed else "the policy has collapsed"
        return RunResult(run_dir=tmp_path, report=tmp_path / "report.html", results=[], steps=1, failure=failure)

    monkeypatch.setattr("openenv.cli.train.run_blocking", run_without_training)
    result = CliRunner().invoke(app, ["train", str(tmp_path / "tiny.yaml"), "--seeds", "2"])

    assert result.exit_code == 1
    assert seeds == [0, 1]
    assert "the policy has collapsed" in result.stderr
