"""`openenv runs status` prints what a run waits for, from the file that the run writes."""

import time
from pathlib import Path

import pytest

from openenv.pages.run_folders import RunFolders
from openenv.rl.waiting.status import PartStatus, RunStatus
from openenv.rl.waiting.waits import Event, Wait
from tests.cli.commands import run
from tests.pages.run_files import make_run

NOW = time.time()


def status_of(folder: Path, time_s: float = NOW) -> None:
    part = PartStatus(
        name="generator 1", pid=4711, silent_s=12.0, starts=2, waits=[Wait("part 3", "its server", 40, 31.0)]
    )
    RunStatus(
        time_s=time_s,
        pid=4000,
        step=7,
        versions={"the trainer": 7, "the rollouts": 6},
        steps_waiting=1,
        waits=[Wait("part 0", "generator 1", 1, 12.5)],
        parts=[part],
        tokens_per_s={"generator 1": 1234.5},
        events=[Event(time_s - 60, "generator 1", "has ended")],
    ).write(folder)


def test_waits_processes_and_events_are_tables(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", "earlier")
    status_of(make_run(tmp_path / "runs", "blackjack"))

    done = run("runs", "status", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    lines = [line.replace("│", " ").split() for line in done.stdout.splitlines()]
    assert "version 7 with the trainer, version 6 with the rollouts" in done.stdout
    assert ["part", "3", "its", "server", "40", "31.0", "s"] in lines
    assert ["part", "0", "generator", "1", "1", "12.5", "s"] in lines
    assert ["generator", "1", "4711", "this", "one", "2", "12.0", "s", "ago", "0"] in lines
    assert ["generator", "1", "1,234"] in lines
    assert ["60", "generator", "1", "has", "ended"] in lines


def test_a_folder_without_a_status_is_refused_with_the_reason(tmp_path: Path) -> None:
    make_run(tmp_path / "runs", "blackjack")

    done = run("runs", "status", "runs/blackjack", cwd=tmp_path)
    none = run("runs", "status", cwd=make_run(tmp_path, "empty"))

    assert done.returncode == 2
    assert "runs/blackjack has no status: its run has not begun to train" in done.stderr
    assert "there is no run in the folder runs" in none.stderr


@pytest.mark.parametrize(
    ("written_s_ago", "expected"),
    [
        (-3600.0, ["part 3 waits for its server (40 times) since 31 s", "part 0 waits for generator 1 since 12 s"]),
        (100.0, ["its driver has reported nothing for "]),
    ],
)
def test_the_page_of_runs_has_the_longest_waits(tmp_path: Path, written_s_ago: float, expected: list[str]) -> None:
    status_of(make_run(tmp_path, "blackjack"), NOW - written_s_ago)

    (row,) = RunFolders(tmp_path).rows()

    assert [wait[: len(start)] for wait, start in zip(row["waits"], expected, strict=False)] == expected
