"""What a run records of its steps, also when it is resumed."""

from pathlib import Path
from typing import Any

import pytest

from openenv.rl.algorithm.replay_buffer import StepGroups
from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.reports.results import read_rows
from openenv.rl.reports.training_log import TrainingLog
from openenv.rl.signals.hacking_signals import WINDOW
from tests.rl.echo_game import echo_chat, echo_config

CHAT = echo_chat()
GROUPS = StepGroups([Group(0, [Trajectory(seed=0, outcome="won", reward=1.0), Trajectory(seed=0, outcome="lost")])], [])
UNREAD = StepGroups([Group(0, [Trajectory(seed=0, outcome="unparseable"), Trajectory(seed=0, outcome="lost")])], [])


def add(log: TrainingLog, *steps: int, groups: StepGroups = GROUPS, **metrics: Any) -> list[dict[str, Any]]:
    """Add steps of ten tokens and a reward of 0."""
    return [log.add({"step": step, "num_tokens": 10, "reward": 0.0, **metrics}, groups, CHAT) for step in steps]


def test_tokens_are_counted_over_the_run_also_when_it_is_resumed(tmp_path: Path) -> None:
    add(TrainingLog(tmp_path, echo_config()), 1, 2, 3)

    add(TrainingLog(tmp_path, echo_config(), first_step=2), 3, 4)

    assert [row["num_tokens"] for row in read_rows(tmp_path / "metrics.jsonl")] == [10, 20, 30, 40]


@pytest.mark.parametrize(("interval", "steps"), [(0, []), (1, [1, 2, 3, 4]), (3, [1, 4])])
def test_transcripts_are_sampled_at_the_interval(tmp_path: Path, interval: int, steps: list[int]) -> None:
    settings = {"interval": interval, "num_episodes": 1}
    log = TrainingLog(tmp_path, echo_config(transcripts=settings))

    add(log, 1, 2, 3, 4)

    assert [row["step"] for row in read_rows(tmp_path / "transcripts.jsonl")] == steps
    assert [transcript["step"] for transcript in log.newest] == steps[-1:]


def test_a_drift_is_a_warning_of_its_step_in_the_log_and_in_the_metrics(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    add(TrainingLog(tmp_path, echo_config()), *range(1, WINDOW + 1))
    resumed = TrainingLog(tmp_path, echo_config(), first_step=WINDOW)

    rows = add(resumed, *range(WINDOW + 1, 2 * WINDOW + 1), groups=UNREAD, reward=1.0, warning="first of all:")

    assert [row["warning"].startswith("first of all:") for row in rows] == [True] * WINDOW
    assert "episodes/unparseable_ratio from 0 to 0.5" in rows[-1]["warning"]
    assert "unparseable" not in rows[3]["warning"]
    assert f"step {2 * WINDOW}: first of all: reward from 0 to 1 rose" in caplog.text
    assert read_rows(tmp_path / "metrics.jsonl")[-1] == rows[-1]
