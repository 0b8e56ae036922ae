"""The state of a run by the files of its folder, and files that are read while they grow."""

import json
import re
import signal
import subprocess
import sys
from dataclasses import asdict
from pathlib import Path

import pytest

from openenv.rl.config import Config
from openenv.rl.reports.results import PlayerResult, RowReader, StepLog, save_results
from openenv.rl.reports.run_state import failure, failure_kept, run_state, running


def run_with_steps(folder: Path, steps: int) -> Path:
    """The folder of a run of two steps, which has made as many."""
    folder.mkdir(exist_ok=True)
    config = asdict(Config())
    config["trainer"]["training"]["steps"] = 2
    (folder / "config.json").write_text(json.dumps(config))
    StepLog(folder / "metrics.jsonl").append(*({"step": step} for step in range(1, steps + 1)))
    return folder


def test_a_run_is_running_until_its_context_ends(tmp_path: Path) -> None:
    run_dir = run_with_steps(tmp_path / "run", 1)
    with running(run_dir):
        assert run_state(run_dir) == "running"

    assert run_state(run_dir) == "ended early"


@pytest.mark.process
def test_a_run_whose_process_is_killed_has_ended_early(tmp_path: Path) -> None:
    run_dir = run_with_steps(tmp_path / "run", 1)
    program = (
        "import pathlib, sys; from openenv.rl.reports.run_state import running\n"
        "with running(pathlib.Path(sys.argv[1])): print('running', flush=True); input()"
    )
    process = subprocess.Popen(
        [sys.executable, "-c", program, str(run_dir)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout.readline() == "running\n"
    assert run_state(run_dir) == "running"
    with pytest.raises(RuntimeError, match="another process is making this run"), running(run_dir):
        pass
    process.send_signal(signal.SIGKILL)
    process.communicate()

    assert run_state(run_dir) == "ended early"


def test_a_run_that_an_error_ended_has_failed_until_it_begins_again(tmp_path: Path) -> None:
    run_dir = run_with_steps(tmp_path / "run", 1)
    with pytest.raises(ConnectionError), running(run_dir), failure_kept(run_dir):
        raise ConnectionError("the server is gone")

    assert (run_state(run_dir), failure(run_dir)) == ("failed", "ConnectionError: the server is gone")
    with pytest.raises(KeyboardInterrupt), running(run_dir), failure_kept(run_dir):
        raise KeyboardInterrupt
    assert (run_state(run_dir), failure(run_dir)) == ("ended early", None)
    assert [path.name for path in run_dir.iterdir() if path.name.startswith("error")] == []


@pytest.mark.finding("a full disk is named with its path")
def test_a_full_disk_is_named_with_its_path_and_a_remedy(tmp_path: Path) -> None:
    run_dir = run_with_steps(tmp_path / "run", 1)
    full = rf"the disk is full. Make room, and go on with --resume: '{re.escape(str(run_dir))}'"
    with pytest.raises(OSError, match=full), running(run_dir), failure_kept(run_dir):
        Path("/dev/full").write_text("a row")

    assert run_state(run_dir) == "failed"
    assert re.search(full, failure(run_dir) or "")


def test_a_run_has_finished_with_all_its_steps_or_its_last_evaluation(tmp_path: Path) -> None:
    assert run_state(run_with_steps(tmp_path, 2)) == "finished"

    run_with_steps(tmp_path, 0)
    save_results(tmp_path, [PlayerResult(name="after", role="after", win_rate=1.0, mean_return=1.0)])
    assert run_state(tmp_path) == "finished"


def test_rows_are_read_as_they_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    reader = RowReader(path)
    assert reader.read() == []

    path.write_text('{"step": 1}\n{"step": ')
    first = list(reader.read())
    with path.open("a") as file:
        file.write("2}\n")

    assert (first, reader.read(), reader.generation) == ([{"step": 1}], [{"step": 1}, {"step": 2}], 0)


def test_rows_are_read_again_after_a_resumed_run_has_replaced_those_that_were_read(tmp_path: Path) -> None:
    path = tmp_path / "metrics.jsonl"
    StepLog(path).append(*({"step": step, "reward": 0.5} for step in (1, 2, 3)))
    reader = RowReader(path)
    reader.read()

    for reward in (0.6, 0.7):  # the second file may have the number of the first on the disk
        StepLog(path, first_step=2).append({"step": 3, "reward": reward}, {"step": 4, "reward": reward})

    assert [row["reward"] for row in reader.read()] == [0.5, 0.5, 0.7, 0.7]
    assert reader.generation == 1
    StepLog(path, first_step=4).append({"step": 5, "reward": 0.8})
    assert ([row["step"] for row in reader.read()], reader.generation) == ([1, 2, 3, 4, 5], 1)
    path.unlink()
    assert (reader.read(), reader.generation) == ([], 2)
