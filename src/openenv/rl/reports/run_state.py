"""Whether the run of a folder is running, has finished, failed, or ended early, by the files of the folder."""

import contextlib
import fcntl
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from openenv.rl.reports.results import load_results, read_rows, replace_text

LOCK = "run.lock"
"""The file that the process of a run keeps locked. The kernel unlocks it when the process ends, however it ends."""

_ERROR = "error.txt"
"""The file with the error that ended the run."""

RunState = Literal["running", "finished", "failed", "ended early"]


@contextlib.contextmanager
def running(run_dir: Path) -> Iterator[None]:
    """Let the run count as running until the end of the context, or of the process. An error there is kept.

    Raises RuntimeError if another process is making the same run: both would write the same files.
    """
    with (run_dir / LOCK).open("w") as file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            raise RuntimeError(f"{run_dir}: another process is making this run. Wait for its end, or end it.") from None
        fcntl.flock(file, fcntl.LOCK_EX)  # waits for a reader, which holds its lock for a moment
        with failure_kept(run_dir):
            yield


@contextlib.contextmanager
def failure_kept(run_dir: Path) -> Iterator[None]:
    """Write an error that leaves the `with` statement to the run's folder, where `failure` finds it. An earlier one
    goes."""
    (run_dir / _ERROR).unlink(missing_ok=True)
    try:
        yield
    except Exception as error:
        replace_text(run_dir / _ERROR, f"{type(error).__name__}: {error}")
        raise


def failure(run_dir: Path) -> str | None:
    """The error that ended the run; None if none did."""
    path = run_dir / _ERROR
    return path.read_text(encoding="utf-8") if path.exists() else None


def run_state(run_dir: Path) -> RunState:
    """The state of a run. It has finished when the model was evaluated after training, or has made all its steps."""
    if _is_locked(run_dir / LOCK):
        return "running"
    if any(result.role == "after" for result in load_results(run_dir)):
        return "finished"
    if failure(run_dir) is not None:
        return "failed"
    rows = read_rows(run_dir / "metrics.jsonl")
    return "finished" if rows and rows[-1]["step"] >= wanted_steps(run_dir) else "ended early"


def wanted_steps(run_dir: Path) -> float:
    """The number of optimizer steps in the run's configuration; infinity without one."""
    path = run_dir / "config.json"
    if not path.exists():
        return float("inf")
    steps: int = json.loads(path.read_text(encoding="utf-8"))["trainer"]["training"]["steps"]
    return steps


def _is_locked(path: Path) -> bool:
    """Whether a process holds the lock of a file."""
    try:
        file = path.open("r")
    except FileNotFoundError:
        return False
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
        except BlockingIOError:
            return True
    return False
