"""Ours beside TRL's GRPOTrainer: `python -m benchmarks.trl`, or `make bench-trl`.

Both train the same pretrained model on blackjack, on one server over TCP, with the same deals, group and batch sizes,
loss and learning rate, strictly on-policy. Each training is a process of its own; the sides take turns. TRL's side runs
in its own virtual environment.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory

from rich.console import Console
from rich.table import Table

from benchmarks.report import machine
from benchmarks.trl import ours
from benchmarks.trl.task import Task, TrainingLog
from openenv.auto.environment import named_environment
from openenv.evaluation.intervals import mean_and_interval

ROOT = Path(__file__).parents[2]
SIDES = {
    "ours": (Path(sys.executable), "benchmarks.trl.ours"),
    "TRL": (ROOT / ".venv-trl/bin/python", "benchmarks.trl.grpo_trainer"),
}
FLOOR = 3.0
"""Episodes a second of ours, as a multiple of TRL's."""
WARM_UP = 2
"""First steps of a training that are not measured."""

Logs = Mapping[str, Sequence[TrainingLog]]


def trained(side: str, task: Task) -> TrainingLog:
    """What one side measures in a process of its own. Raises RuntimeError with the end of its error output."""
    python, module = SIDES[side]
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log.json"
        done = subprocess.run(
            [python, "-m", module, json.dumps(asdict(task)), log], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(f"{module} ended with exit code {done.returncode}:\n{done.stderr[-2000:]}")
        return TrainingLog(**json.loads(log.read_text()))


def table(logs: Logs, task: Task) -> Table:
    """The speed of each side, and its rewards in the first and the last third of the steps."""
    speeds = {
        side: statistics.median(task.episodes / log.step_s(WARM_UP) for log in of_side)
        for side, of_side in logs.items()
    }
    shown = Table(title=f"Blackjack, {task.groups} groups of {task.group_size} in a step, {task.steps} steps")
    for heading in ("side", "episodes/s", "ratio", "floor", "reward, first third", "reward, last third"):
        shown.add_column(heading, justify="left" if heading == "side" else "right")
    for side, of_side in logs.items():
        ratio = (f"{speeds['ours'] / speeds['TRL']:.2f}x", f"{FLOOR:g}x") if side == "ours" else ("", "")
        third = task.steps // 3
        thirds = (
            [reward for log in of_side for reward in log.rewards[part]] for part in (slice(third), slice(-third, None))
        )
        shown.add_row(side, f"{speeds[side]:,.0f}", *ratio, *map(_mean_text, thirds))
    return shown


def _mean_text(rewards: Sequence[float]) -> str:
    mean, (low, high) = mean_and_interval(rewards)
    return f"{mean:+.3f} [{low:+.3f}, {high:+.3f}]"


def plot(logs: Logs, path: Path) -> Path:
    """Draw the rewards of each training, by step and by seconds."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    figure, (by_step, by_seconds) = pyplot.subplots(1, 2, figsize=(11, 4), sharey=True)
    for number, (side, of_side) in enumerate(logs.items()):
        for run, log in enumerate(of_side):
            means = [statistics.fmean(log.rewards[max(0, end - 10) : end]) for end in range(1, len(log.rewards) + 1)]
            style = {"color": f"C{number}", "label": side if run == 0 else None}
            by_step.plot(range(1, len(means) + 1), means, **style)
            by_seconds.plot(log.ended_s, means, **style)
    by_step.set(xlabel="step", ylabel="mean reward of the last 10 steps")
    by_seconds.set(xlabel="seconds")
    by_step.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120, bbox_inches="tight")
    return path


def main() -> None:
    """Train both sides, and print what was measured."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trl", description=__doc__)
    parser.add_argument("--steps", type=int, default=60, help="Optimizer steps of a training (default %(default)s).")
    parser.add_argument("--groups", type=int, default=32, help="Groups in a step (default %(default)s).")
    parser.add_argument("--rounds", type=int, default=2, help="Trainings of each side (default %(default)s).")
    parser.add_argument("--plot", type=Path, default=Path("runs/trl.png"), help="The plot (default %(default)s).")
    args = parser.parse_args()
    console = Console()
    logs: dict[str, list[TrainingLog]] = {side: [] for side in SIDES}
    with TemporaryDirectory() as folder, named_environment("openspiel").running() as url:
        model = asyncio.run(ours.make_model(url, Path(folder)))
        for seed in range(args.rounds):
            task = Task(
                server_url=url, model=str(model), steps=args.steps, groups=args.groups, group_size=8, lr=1e-3, seed=seed
            )
            for side, of_side in logs.items():
                of_side.append(trained(side, task))
                console.print(f"{side}, seed {seed}: {task.episodes / of_side[-1].step_s(WARM_UP):,.0f} episodes/s")
    console.print(machine())
    console.print(table(logs, task))
    console.print(f"plot: {plot(logs, args.plot)}")


if __name__ == "__main__":
    main()
