"""What is recorded of the best checkpoint of a run, beside its weights, and how it is named at the end."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Self

from openenv.formats.json_text import json_text
from openenv.rl.reports.results import read_rows

BEST = "best"
"""The folder of the best checkpoint, in the run's folder `checkpoints`."""

_FILE = "best.json"


@dataclass(frozen=True, kw_only=True)
class BestCheckpoint:
    """The step with the highest score of the evaluations of a run; of equal ones the earliest."""

    step: int
    score: float
    """Mean return of the games with the most likely replies, in standard deviations of random play."""
    metrics: dict[str, Any]
    """The metrics of its evaluation."""

    def save(self, folder: Path) -> None:
        """Write `best.json` into the checkpoint's folder."""
        (folder / _FILE).write_text(json_text(asdict(self), indent=1), encoding="utf-8")

    @classmethod
    def load(cls, run_dir: Path) -> Self | None:
        """That of a run; None if it has none."""
        path = run_dir / "checkpoints" / BEST / _FILE
        return cls(**json.loads(path.read_text(encoding="utf-8"))) if path.exists() else None


def evaluations(rows: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The rows of steps after which the run was evaluated."""
    return [row for row in rows if "eval/score" in row]


def best_line(run_dir: Path) -> str | None:
    """A sentence about the best checkpoint, if its score is above that of the newest evaluation."""
    best, evaluated = BestCheckpoint.load(run_dir), evaluations(read_rows(run_dir / "metrics.jsonl"))
    if best is None or not evaluated:
        return None
    last = evaluated[-1]
    if last["eval/score"] is not None and best.score <= last["eval/score"]:
        return None
    folder = run_dir / "checkpoints" / BEST
    there, here = _results(best.metrics), _results(last)
    return f"best checkpoint: step {best.step} ({there}; step {last['step']}: {here}), kept in {folder}"


def _results(row: Mapping[str, Any]) -> str:
    """The results with the most likely replies, of each environment."""
    keys = [key for key in row if key.endswith("greedy/return")]
    return ", ".join(f"{_player(key)}return {_number(row[key], '+.4f')}{_wins(row, key)}" for key in keys)


def _player(key: str) -> str:
    """The environment in a key such as `eval/catch/greedy/return`, if there is one."""
    label = key.removeprefix("eval/").removesuffix("greedy/return").rstrip("/")
    return f"{label} " if label else ""


def _wins(row: Mapping[str, Any], key: str) -> str:
    rate = row[key.removesuffix("return") + "win_rate"]
    return "" if rate is None else f", win rate {rate:.2%}"


def _number(value: float | None, form: str) -> str:
    return "unknown" if value is None else f"{value:{form}}"
