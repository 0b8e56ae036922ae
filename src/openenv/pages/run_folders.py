"""The runs in a folder: their state, curves, transcripts and settings, read again where a file has grown."""

import contextlib
import math
import os
import threading
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from openenv.core.wire.json_codec import write_json
from openenv.formats.json_text import json_text
from openenv.rl.config_file import with_current_keys
from openenv.rl.reports.best_checkpoint import evaluations
from openenv.rl.reports.report import CURVES
from openenv.rl.reports.results import MetricsRow, RowReader, load_results
from openenv.rl.reports.run_files import read_run_json, read_run_text
from openenv.rl.reports.run_state import failure, run_state, wanted_steps
from openenv.rl.reports.training_log import collapses
from openenv.rl.reports.transcripts import Transcript
from openenv.rl.waiting.status import RunStatus

TITLES = dict(CURVES)
"""What the best known metrics are called."""
_MOST_WAITS = 5
_NOT_DRAWN = frozenset({"step"})


class UnknownRun(LookupError):
    """The folder has no such run, or the run has no such file."""


class UnreadableRun(ValueError):
    """A file of a run cannot be read."""


class RunFolders:
    """The runs of one folder, each a folder in it. Safe to use from several threads."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._lock = threading.Lock()
        self._metrics: dict[str, RowReader] = {}
        self._transcripts: dict[str, RowReader] = {}

    def names(self) -> list[str]:
        """The names of the runs, the newest first."""
        if not self.folder.is_dir():
            return []
        root = self.folder.resolve()
        folders = [folder for folder in self.folder.iterdir() if _is_run(folder, root)]
        return [folder.name for folder in sorted(folders, key=_changed, reverse=True)]

    def rows(self) -> list[dict[str, Any]]:
        """What the list shows of each run; only its `name` and the `problem` of one whose files cannot be read."""
        return [self._row(name) for name in self.names()]

    def _row(self, name: str) -> dict[str, Any]:
        folder = self.folder / name
        try:
            rows, _ = self._metric_rows(name)
            last = rows[-1] if rows else {}
            wanted = wanted_steps(folder)
            row = {
                "name": name,
                "state": run_state(folder),
                "failure": failure(folder),
                "steps": last.get("step", 0),
                "wanted": wanted if math.isfinite(wanted) else None,
                "reward": last.get("reward"),
                "results": [
                    {"player": result.name, "win_rate": result.win_rate, "mean_return": result.mean_return}
                    for result in load_results(folder)
                ],
                "changed": _changed(folder),
                "metrics": _numbers(rows),
                "collapses": collapses(rows),
                "collapse": last.get("collapse"),
                "transcript_bytes": _size(folder / "transcripts.jsonl"),
                "has_report": (folder / "report.html").exists(),
                "waits": _waits(folder),
            }
            write_json(row)  # values of any kind may be in the files: what no response can hold is this run's problem
            return row
        except Exception as error:  # noqa: BLE001  border: files that another program may have written
            return {"name": name, "problem": _problem(error)}

    def curve(self, name: str, metric: str, generation: int, after: int) -> dict[str, Any]:
        """The points of a metric from the row with the number `after`, or all where the file is of another generation.

        Raises UnknownRun, UnreadableRun.
        """
        with self._reading(name):
            rows, now = self._metric_rows(name)
            first = after if generation == now and after <= len(rows) else 0
            points = [[row["step"], _short(row.get(metric))] for row in rows[first:]]
            write_json(points)
        return {"generation": now, "first": first, "points": points}

    def transcripts(self, name: str, query: "TranscriptQuery") -> dict[str, Any]:
        """The transcripts that a query finds, the newest first: a part of them, with their number and that of all.

        Raises UnknownRun, UnreadableRun.
        """
        with self._reading(name) as folder:
            with self._lock:
                if name not in self._transcripts:
                    self._transcripts = {name: RowReader(folder / "transcripts.jsonl")}  # one run's are kept
                rows = list(self._transcripts[name].read())
            found = [row for row in reversed(rows) if query.finds(row)]
            part = found[query.offset : query.offset + query.limit]
            write_json(part)
        return {"total": len(rows), "found": len(found), "transcripts": part}

    def settings(self, names: Sequence[str]) -> list[dict[str, Any]]:
        """Each setting of several runs: `key`, the `values` in the order of the runs, and whether they `differ`.

        Raises UnknownRun, UnreadableRun.
        """
        settings = [self._settings(name) for name in names]
        keys = dict.fromkeys(key for one in settings for key in one)
        rows = [(key, [one.get(key) for one in settings]) for key in keys]
        return [{"key": key, "values": values, "differ": len(set(values)) > 1} for key, values in rows]

    def report(self, name: str) -> str:
        """The HTML of a run's report. Raises UnknownRun, also for one without a report, and UnreadableRun."""
        with self._reading(name) as folder:
            path = folder / "report.html"
            if not path.exists():
                raise UnknownRun(f"run {name!r} has no report yet: `openenv train` writes it at its end")
            return read_run_text(path)

    @contextlib.contextmanager
    def _reading(self, name: str) -> Iterator[Path]:
        """The folder of a run. Raises UnknownRun, and UnreadableRun for anything that its files are wrong in."""
        try:
            yield self.folder / self._require(name)
        except UnknownRun:
            raise
        except Exception as error:  # border: files that another program may have written
            raise UnreadableRun(f"run {name!r} cannot be read: {_problem(error)}") from error

    def _metric_rows(self, name: str) -> tuple[list[MetricsRow], int]:
        """The rows so far, and the generation of their file."""
        with self._lock:
            reader = self._metrics.setdefault(name, RowReader(self.folder / name / "metrics.jsonl"))
            return list(reader.read()), reader.generation

    def _settings(self, name: str) -> dict[str, str]:
        with self._reading(name) as folder:
            path = folder / "config.json"
            return dict(_flat(with_current_keys(read_run_json(path), warn=False))) if path.exists() else {}

    def _require(self, name: str) -> str:
        if name not in self.names():
            raise UnknownRun(f"there is no run {name!r} in {self.folder}")
        return name


@dataclass(frozen=True, kw_only=True)
class TranscriptQuery:
    """Which transcripts to show."""

    outcome: str = ""
    """won, push, lost, unparseable or invalid; empty for all."""
    text: str = ""
    """Words that a prompt, a reply, an action or the reason has, in any case."""
    offset: int = 0
    limit: int = 20

    def finds(self, transcript: Transcript) -> bool:
        """Whether the transcript is one of them."""
        if self.outcome and transcript["outcome"] != self.outcome:
            return False
        wanted = self.text.lower()
        return not wanted or any(wanted in text.lower() for text in _texts(transcript))


def _texts(transcript: Transcript) -> Iterator[str]:
    yield str(transcript.get("reason") or "")
    for turn in transcript["turns"]:
        yield from (str(turn[key]) for key in ("prompt", "reply", "action") if turn.get(key) is not None)


def _waits(folder: Path) -> list[str]:
    """The longest waits of the run, at its end if it does not run any more; or that its driver reports nothing."""
    status = RunStatus.read(folder)
    if status is None:
        return []
    silent = [f"its driver has reported nothing for {status.age_s:.0f} s"] if status.is_old else []
    return silent + [str(wait) for wait in status.all_waits[:_MOST_WAITS]]


def _is_run(folder: Path, root: Path) -> bool:
    """Whether a folder is a run that can be looked into, in `root` itself: links out of it are not followed."""
    try:
        folder.name.encode()  # a name that is no text cannot be in a response
        has_files = any((folder / name).exists() for name in ("config.json", "metrics.jsonl"))
        return folder.is_dir() and has_files and Path(os.path.realpath(folder)).is_relative_to(root)
    except (OSError, UnicodeEncodeError):
        return False


def _changed(folder: Path) -> float:
    """When the run last wrote its configuration or its metrics, in seconds since 1970."""
    files = [folder / name for name in ("config.json", "metrics.jsonl", "results.json")]
    return max(map(_modified, files))


def _problem(error: Exception) -> str:
    """An error in words that a response can hold, whatever a file has put into them."""
    return f"{type(error).__name__}: {error}".encode(errors="replace").decode()[:1000]


def _modified(file: Path) -> float:
    try:
        return file.stat().st_mtime
    except OSError:  # there is none
        return 0.0


def _size(path: Path) -> int:
    """Bytes of a file; 0 without one. The page asks for transcripts again when they have changed."""
    return path.stat().st_size if path.exists() else 0


def _numbers(rows: Sequence[MetricsRow]) -> list[str]:
    """The metrics that can be drawn: the well known ones first."""
    if not rows:
        return []
    telling = (rows[0], rows[-1], *evaluations(rows)[-1:])
    known = {key for row in telling for key, value in row.items() if _is_number(value)}
    return [key for key in TITLES if key in known] + sorted(known - TITLES.keys() - _NOT_DRAWN)


def _short(value: Any) -> Any:
    """A number with six digits, which is more than a chart shows: long curves are sent in half the bytes."""
    return float(f"{value:.6g}") if isinstance(value, float) else value


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _flat(value: Any, prefix: str = "") -> Iterator[tuple[str, str]]:
    """The leaves of nested mappings and lists with their dotted keys, such as `env[0].name`, as JSON."""
    if isinstance(value, Mapping) and value:
        for key, item in value.items():
            yield from _flat(item, f"{prefix}.{key}" if prefix else str(key))
    elif isinstance(value, list) and any(isinstance(item, Mapping) for item in value):
        for number, item in enumerate(value):
            yield from _flat(item, f"{prefix}[{number}]")
    else:
        yield prefix, value if isinstance(value, str) else json_text(value)
