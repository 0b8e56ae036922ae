"""`openenv train` trains from one YAML file."""

import signal
import subprocess

import pytest

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
    assert "<svg" in (tmp_path / "runs/tic_tac_toe/report.html").read_text()


def test_an_interrupted_training_writes_its_report(tmp_path):
    (tmp_path / "tiny.yaml").write_text(TINY_RUN)
    process = subprocess.Popen(
        [*OPENENV, "train", "tiny.yaml"], cwd=tmp_path, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (line := process.stderr.readline()).startswith("train:"):
        assert line, "the run ended before its training"
    process.send_signal(signal.SIGINT)
    _, errors = process.communicate(timeout=60)

    assert process.returncode == 130, errors
    assert "Traceback" not in errors
    assert (tmp_path / "runs/tiny/report.html").exists()


def test_a_wrong_key_of_the_yaml_ends_with_the_right_one(tmp_path):
    (tmp_path / "wrong.yaml").write_text("group_sise: 4\n")
    done = run("train", "wrong.yaml", cwd=tmp_path)

    assert done.returncode == 1
    assert "group_size" in done.stderr
