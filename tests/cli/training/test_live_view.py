"""The live view of `openenv train`, in terminals of several sizes, and its absence without a terminal."""

import contextlib
import fcntl
import io
import logging
import os
import pty
import struct
import subprocess
import termios
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from openenv.cli.live_view import LiveView, block_chart, duration, live_view
from openenv.rl.waiting.status import RunStatus
from openenv.rl.waiting.waits import Wait
from tests.cli.commands import OPENENV
from tests.cli.training.test_train import TINY_RUN


class Clock:
    """A clock that the test sets."""

    now = 0.0

    def __call__(self) -> float:
        return self.now


def transcript(outcome: str, reward: float, reply: str, turns: int = 1) -> dict[str, Any]:
    turn = {"prompt": "<|user|> cards 9 Q\ndealer 4", "reply": reply, "reward": reward, "advantage": reward / 2}
    return {
        "step": 11,
        "group": 8,
        "seed": 4,
        "outcome": outcome,
        "reason": "",
        "reward": reward,
        "turns": [turn] * turns,
    }


def row(step: int, **known: Any) -> dict[str, Any]:
    return {
        "step": step,
        "reward": step / 10,
        "win_rate": 0.4,
        "entropy": 1.0 / step,
        "kl": 0.01,
        "num_episodes": 100,
        "frac_reward_zero_std": 0.25,
        "completions/mean_length": 2.5,
        "completions/clipped_ratio": 0.5,
        "transcripts": [transcript("won", 2.0, "stand"), transcript("lost", -1.0, "hit")],
        **known,
    }


def trained(steps: int, total: int, **known: Any) -> LiveView:
    """A view of a run after pretraining of 5 s and steps of 2 s each."""
    clock = Clock()
    view = LiveView("blackjack", clock)
    for done in (0, 10):
        view("pretrain", done, 10, {})
        clock.now += 5 * (done == 0)
    for step in range(1, steps + 1):
        clock.now += 2
        view("train", step, total, row(step, **known))
    return view


def screen(view: LiveView, width: int = 80, height: int = 24) -> list[str]:
    console = Console(width=width, height=height, file=io.StringIO(), record=True, force_terminal=True)
    console.print(view)
    return console.export_text().splitlines()


def test_a_run_that_has_not_reported_yet_is_starting() -> None:
    assert screen(LiveView("blackjack", Clock())) == ["blackjack: starting, 0:00"]


def test_the_phase_its_time_left_and_the_speeds_are_shown() -> None:
    first, second, third, *_ = screen(trained(10, 100))

    assert "blackjack: train" in first
    assert "10/100, 0:25, 3:00 left" in first
    assert second.strip() == "done: pretrain 0:05"
    assert third.startswith("2.0 s a step · 50 episodes/s · 75% of groups with a signal · 2.5 tokens a reply")


def test_less_time_is_left_if_the_runs_time_is_up_before() -> None:
    assert "1:30 left" in screen(trained(10, 100, minutes_left=1.5))[0]
    assert "3:00 left" in screen(trained(10, 100, minutes_left=60.0))[0]


@pytest.mark.parametrize(("width", "charts_in_a_row"), [(80, 2), (140, 4)])
def test_the_view_fits_the_terminal(width: int, charts_in_a_row: int) -> None:
    lines = screen(trained(200, 300), width)

    assert len(lines) <= 24
    assert max(map(len, lines)) <= width
    (titles,) = (line for line in lines if line.startswith("reward"))
    assert sum(name in titles for name in ("reward", "win_rate", "entropy", "kl")) == charts_in_a_row
    assert "reward +20.000" in titles
    assert "+0.100 to +20.000" in titles


def test_long_transcripts_are_cut_to_what_fits_and_both_are_shown() -> None:
    long = [transcript("won", 2.0, "stand " * 200, turns=9), transcript("lost", -1.0, "hit " * 200, turns=9)]

    lines = screen(trained(3, 10, transcripts=long))

    assert len(lines) <= 24
    text = "\n".join(lines)
    assert "won, reward +2" in text
    assert "lost, reward -1" in text
    assert "<|user|> cards 9 Q dealer 4" in text
    assert " … " in text


def test_a_metric_without_values_has_no_chart() -> None:
    text = "\n".join(screen(trained(3, 10, kl=None, win_rate=None, transcripts=[])))

    assert "reward" in text
    assert "kl" not in text
    assert "win_rate" not in text


EVALUATION = {
    "eval/greedy/win_rate": 0.5,
    "eval/greedy/win_rate_interval": [0.4, 0.6],
    "eval/greedy/return": 0.25,
    "eval/sampled/win_rate": 0.25,
    "eval/sampled/return": None,
    "eval/pass@4": 0.75,
    "eval/score": 0.5,
}


def test_the_newest_evaluation_is_shown_until_there_is_another() -> None:
    view = trained(3, 10, **EVALUATION)
    view("train", 4, 10, row(4))
    lines = screen(view, width=120)

    results = "greedy won 50.0%, return +0.250 · sampled won 25.0% · pass@4 75.0%"
    assert any(line.startswith(f"evaluation after step 3: {results}") for line in lines)

    view("train", 4, 10, {"evaluated": 120, "to_evaluate": 1000})
    assert any(line.rstrip().endswith("pass@4 75.0% · evaluating: 120/1,000 games") for line in screen(view, width=130))
    view("train", 5, 10, row(5))
    assert not any("evaluating" in line for line in screen(view, width=130))


def test_an_evaluation_of_several_environments_names_each() -> None:
    several = {"eval/score": 0.1, "eval/catch/greedy/return": 0.5, "eval/guess/greedy/return": -0.5}

    (line,) = (line for line in screen(trained(3, 10, **several)) if line.startswith("evaluation"))

    assert line.startswith("evaluation after step 3: catch greedy return +0.500 · guess greedy return -0.500")


def test_a_chart_shows_each_value_or_the_means_of_many() -> None:
    assert block_chart([0.0, 1.0], 10, 1) == ["▁█"]
    assert block_chart([0.0, 1.0], 10, 2) == [" █", "▁█"]
    assert block_chart([0.0, 0.0, 1.0, 1.0], 2, 1) == ["▁█"]
    assert block_chart([3.0, 3.0], 10, 1) == ["▄▄"]


def test_durations_are_minutes_and_seconds() -> None:
    assert [duration(seconds) for seconds in (5, 65, 7209)] == ["0:05", "1:05", "2:00:09"]


def test_log_lines_appear_above_the_view(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(logging.getLogger(), "handlers", [logging.StreamHandler()])
    console = Console(width=80, height=24, file=io.StringIO(), force_terminal=True)

    with live_view("blackjack", console):
        logging.warning("a group was dropped")
    logging.warning("the view has ended")

    assert "a group was dropped" in console.file.getvalue()  # type: ignore[attr-defined]
    assert capsys.readouterr().err == "the view has ended\n"


@pytest.mark.process
def test_a_run_on_a_terminal_has_the_view_and_then_its_table(tmp_path: Path) -> None:
    (tmp_path / "tiny.yaml").write_text(TINY_RUN)
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 24, 80, 0, 0))
    command = [*OPENENV, "train", "tiny.yaml", "--steps", "2"]
    environment = {**os.environ, "TERM": "xterm-256color"}
    with subprocess.Popen(
        command, cwd=tmp_path, stdin=theirs, stdout=theirs, stderr=theirs, env=environment
    ) as process:
        os.close(theirs)
        shown = "".join(_received(ours))

    assert process.returncode == 0, shown
    view, table = shown.split("Win rate and mean return of the game")
    for part in ("tiny: evaluate after GRPO (greedy)", "16/16", "step 1, group", "reward", "done: random play"):
        assert part in view
    assert "after GRPO (greedy)" in table
    assert "train: " not in shown.replace("tiny: train", "")  # no lines of a log file


def _received(terminal: int) -> Iterator[str]:
    """All that programs write to the terminal, until the last of them has ended."""
    with os.fdopen(terminal, "r", encoding="utf-8", errors="replace", newline="") as file, contextlib.suppress(OSError):
        yield from iter(lambda: file.read(1), "")


def test_the_longest_waits_are_a_line_under_the_head() -> None:
    view = LiveView("blackjack", Clock())
    waits = [Wait("part 0", "generator 1", 1, 12.4), Wait("part 1", "its server", 40, 3.0)]
    status = RunStatus(
        time_s=0.0, pid=1, step=7, versions={}, steps_waiting=0, waits=waits, parts=[], tokens_per_s={}, events=[]
    )
    view("train", 7, 50, {"status": status})

    console = Console(width=120, file=io.StringIO())
    with console.capture() as printed:
        console.print(view)

    expected = "part 0 waits for generator 1 since 12 s · part 1 waits for its server (40 times) since 3 s"
    assert printed.get().splitlines()[1].strip() == expected
