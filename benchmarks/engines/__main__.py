"""`python -m benchmarks.engines`: `openenv train` with each engine in turn, on this machine.

Prints episodes/s of training steps, their ratio, and the processor seconds of each process. Exits with 1 if the engine
on Ray has less than 0.7 of the embedded one's episodes/s with the tiny model, or 0.9 with a pretrained one.
"""

import argparse
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import psutil
from rich.console import Console
from rich.table import Table

from benchmarks.chaos.run import Driver
from openenv.rl.reports.results import read_rows

_ENGINES: dict[str, Any] = {
    "embedded": {"name": "embedded"},
    "ray": {"name": "ray", "rollout_workers": 1, "generators": 1, "trainer_ranks": 1},
}
_WARM_UP = 2
"""Steps that do not count."""
_LIMIT_S = 3600.0
_POLL_S = 0.5


def settings(engine: str, steps: int, groups: int, model: str) -> dict[str, Any]:
    """A run with default settings but for its size and its engine. model: empty for the tiny one."""
    game = {"game_name": "tic_tac_toe" if model else "blackjack"}
    return {
        "name": engine,
        "env": {"name": "openspiel", "reset": game},
        "engine": _ENGINES[engine],
        "trainer": {"training": {"steps": steps + _WARM_UP}},
        "evaluation": {"num_games": 16, "interval": 0},
        **({"model": {"path": model}} if model else {}),
        **({"replay_buffer": {"batch_size": groups}, "groups_in_flight": groups} if groups else {}),
    }


def measured(engine: str, folder: Path, options: argparse.Namespace) -> tuple[float, dict[str, float]]:
    """Episodes/s of the steps of a run, and the processor seconds of each of its processes."""
    driver = Driver(folder, settings(engine, options.steps, options.groups, options.model))
    seconds: dict[str, float] = {}
    began = time.monotonic()
    try:
        while driver.process.poll() is None:
            if time.monotonic() - began > _LIMIT_S:
                raise TimeoutError(f"{engine}: no end within {_LIMIT_S:.0f} s")
            status = driver.status
            parts = {part.name: part.pid for part in status.parts} if status else {}
            for name, pid in {"driver": driver.process.pid, **parts}.items():
                seconds[name] = _processor_s(pid, seconds.get(name, 0.0))
            time.sleep(_POLL_S)
        driver.wait(_POLL_S)
    finally:
        driver.end()
    rows = read_rows(driver.run_dir / "metrics.jsonl")[_WARM_UP:]
    return sum(row["num_episodes"] for row in rows) / sum(row["step_time"] for row in rows), seconds


def _processor_s(pid: int, last: float) -> float:
    """The processor time that a process has had. last: of one that has ended."""
    try:
        times = psutil.Process(pid).cpu_times()
    except (psutil.NoSuchProcess, psutil.AccessDenied):
        return last
    return float(times.user + times.system)


def main() -> int:
    """Returns the exit code."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.engines", description=__doc__)
    parser.add_argument("--steps", type=int, default=20, help="steps that count (default 20)")
    parser.add_argument("--turns", type=int, default=3, help="runs of each engine, in turn (default 3)")
    parser.add_argument("--groups", type=int, default=128, help="groups in a step; 0: the default (default 128)")
    parser.add_argument("--model", default="", help="a folder of a pretrained model (default: the tiny one)")
    options = parser.parse_args()
    if options.model:
        options.model = str(Path(options.model).resolve())
    speeds: dict[str, list[float]] = {engine: [] for engine in _ENGINES}
    costs: dict[str, dict[str, float]] = {}
    with tempfile.TemporaryDirectory(prefix="engines-") as parent:
        for turn in range(options.turns):
            for engine in _ENGINES:
                folder = Path(parent) / f"{engine}-{turn}"
                folder.mkdir()
                speed, costs[engine] = measured(engine, folder, options)
                speeds[engine].append(speed)
                print(f"turn {turn + 1}: {engine}: {speed:,.1f} episodes/s", flush=True)
    ratio = statistics.median(speeds["ray"]) / statistics.median(speeds["embedded"])
    table = Table("engine", "process", "processor seconds of the last turn", title="Cost of each process")
    for engine, seconds in costs.items():
        for name, one in seconds.items():
            table.add_row(engine, name, f"{one:.1f}")
    Console(emoji=False).print(table)
    floor = 0.9 if options.model else 0.7
    print(f"Ray beside embedded: {ratio:.2f} of its episodes/s, at least {floor} wanted")
    return 0 if ratio >= floor else 1


if __name__ == "__main__":
    sys.exit(main())
