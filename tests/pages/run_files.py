"""Folders of runs, as `openenv train` writes them."""

import json
import math
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Any

from openenv.rl.config import Config
from openenv.rl.reports.results import StepLog

HOSTILE = "<script>window.attacked = true</script><img src=x onerror='window.attacked = true'>"
"""HTML that would run in a page that does not escape it."""


def make_run(
    folder: Path, name: str, *, steps: Iterable[int] = range(1, 41), level: float = 1.0, **settings: Any
) -> Path:
    """A run with a reward that rises to `level`. settings: of its configuration."""
    run_dir = folder / name
    run_dir.mkdir(parents=True)
    config = asdict(Config(name="run", **settings))
    config["trainer"]["training"]["steps"] = 100
    (run_dir / "config.json").write_text(json.dumps(config))
    append_steps(run_dir, steps, level=level)
    return run_dir


def append_steps(run_dir: Path, steps: Iterable[int], *, level: float = 1.0, **metrics: Any) -> None:
    """Append the rows of steps, as a run that trains does. metrics: further ones of each."""
    rows = [
        {
            "step": step,
            "reward": level * (1 - math.exp(-step / 15)) + 0.04 * math.sin(step),
            "win_rate": 1 - math.exp(-step / 20),
            "entropy": math.exp(-step / 30),
            "num_episodes": 64,
            "training_s": 2.5 * step,
            "warning": None,
            **metrics,
        }
        for step in steps
    ]
    with (run_dir / "metrics.jsonl").open("a") as file:
        file.write("".join(f"{json.dumps(row)}\n" for row in rows))


def transcript(step: int, outcome: str, reply: str, *, prompt: str = "a question", reason: str = "") -> dict[str, Any]:
    """A transcript of one turn."""
    turn = {"prompt": prompt, "reply": reply, "action": reply, "reward": 1.0, "advantage": 0.5}
    return {
        "step": step, "environment": 0, "group": 3, "seed": 7, "policy_version": step, "outcome": outcome,
        "reason": reason, "return": 1.0, "reward": 1.0, "turns": [turn],
    }  # fmt: skip


def write_transcripts(run_dir: Path, *transcripts: dict[str, Any]) -> None:
    """Write the transcripts of a run."""
    StepLog(run_dir / "transcripts.jsonl").append(*transcripts)
