"""Whether a run is running, has finished, failed, or ended early, by the files of its folder and the lock beside it."""

import contextlib
import errno
from collections.abc import Iterator
from pathlib import Path
from typing import Literal

from filelock import FileLock, Timeout

from openenv.rl.reports.results import load_results, read_rows
from openenv.rl.reports.run_files import read_run_json, read_run_text

_ERROR = "error.txt"
"""The file with the error that ended the run."""
_RESERVED_BYTES = 4096
"""Of the file of the error, written when the run begins: a full disk has no room for one."""
_READ_S, _POLL_S = 0.1, 0.01
"""How long a reader tries to lock what another one may be reading."""

RunState = Literal["running", "finished", "failed", "ended early"]


@contextlib.contextmanager
def running(run_dir: Path) -> Iterator[None]:
    """Let the run count as running until the end of the context, or of the process, however it ends.

    The lock is beside the folder: it stays where it is while the folder of an earlier run is renamed. Raises
    RuntimeError if another process is making the same run: both would write the same files.
    """
    run_dir.parent.mkdir(parents=True, exist_ok=True)
    lock = _lock_of(run_dir)
    try:
        held = lock.acquire(timeout=10 * _READ_S, poll_interval=_POLL_S)  # readers hold it for a moment
    except Timeout:
        raise RuntimeError(
            f"{run_dir}: another process is making this run. Wait for its end, end it, or give this run another name."
        ) from None
    with held:
        try:
            yield
        finally:
            if failure(run_dir) is None:
                (run_dir / _ERROR).unlink(missing_ok=True)
            with contextlib.suppress(PermissionError):  # Windows removes no open file
                Path(lock.lock_file).unlink(missing_ok=True)  # a process that waits for it opens a new file


@contextlib.contextmanager
def failure_kept(run_dir: Path) -> Iterator[None]:
    """Write an error that leaves the `with` statement to the run's folder, where `failure` finds it. An earlier one
    goes."""
    _write_failure(run_dir, "")
    try:
        yield
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            _write_failure(run_dir, f"{type(error).__name__}: {error}")
            raise
        remedy = "the disk is full. Make room, and go on with --resume"
        full = OSError(error.errno, remedy, str(error.filename or run_dir))
        _write_failure(run_dir, f"{type(full).__name__}: {full}")
        raise full from error
    except Exception as error:
        _write_failure(run_dir, f"{type(error).__name__}: {error}")
        raise


def _write_failure(run_dir: Path, text: str) -> None:
    """Into the bytes that the run has reserved, if it has."""
    path = run_dir / _ERROR
    with path.open("r+b" if path.exists() else "wb") as file:
        file.write(text.encode()[:_RESERVED_BYTES].ljust(_RESERVED_BYTES))


def failure(run_dir: Path) -> str | None:
    """The error that ended the run; None if none did."""
    path = run_dir / _ERROR
    return (read_run_text(path).strip() or None) if path.exists() else None


def run_state(run_dir: Path) -> RunState:
    """The state of a run. It has finished when the model was evaluated after training, or has made all its steps."""
    if _is_running(run_dir):
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
    steps: int = read_run_json(path)["trainer"]["training"]["steps"]
    return steps


def _is_running(run_dir: Path) -> bool:
    """Whether a process holds the lock. None runs where files cannot be written."""
    lock = _lock_of(run_dir)
    if not Path(lock.lock_file).exists():
        return False
    try:
        with lock.acquire(timeout=_READ_S, poll_interval=_POLL_S):
            return False
    except Timeout:
        return True
    except OSError as error:
        if error.errno in (errno.EROFS, errno.EACCES):
            return False
        raise


def _lock_of(run_dir: Path) -> FileLock:
    """A lock that the system releases when its process ends. Every user may ask whether it is held."""
    return FileLock(run_dir.with_name(f".{run_dir.name}.lock"), mode=0o666, thread_local=False)
