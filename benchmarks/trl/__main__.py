"""Ours beside TRL's GRPOTrainer: `python -m benchmarks.trl`, or `make bench-trl`.

Both train the same pretrained model on blackjack, on one server over TCP, with the same deals, group and batch sizes,
loss and learning rate, strictly on-policy. Each training is a process of its own; the sides take turns. TRL's side runs
with one torch thread and with as many as torch chooses: on busy cores several threads wait for each other, and the
training is many times slower. The ratio is to the faster of the two.
"""

import argparse
import asyncio
import json
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
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


@dataclass(frozen=True)
class Side:
    """How a side is run."""

    module: str
    threads: int | None
    """Torch threads. None: as many as torch chooses, which is measured on a processor only."""


OURS, TRL = "ours", "TRL, 1 thread"
SIDES = {
    OURS: Side("benchmarks.trl.ours", 1),
    TRL: Side("benchmarks.trl.grpo_trainer", 1),
    "TRL, torch's threads": Side("benchmarks.trl.grpo_trainer", None),
}
FLOORS = {"cpu": 3.0, "cuda": 2.0}
"""Episodes a second of ours, as a multiple of those of the faster TRL, by device."""
WARM_UP = 2
"""First steps of a training that are not measured."""

Logs = Mapping[str, Sequence[TrainingLog]]


def trained(side: Side, task: Task) -> TrainingLog:
    """What one side measures in a process of its own. Raises RuntimeError with the end of its error output."""
    settings = json.dumps(asdict(replace(task, threads=side.threads)))
    with TemporaryDirectory() as folder:
        log = Path(folder) / "log.json"
        command = [sys.executable, "-m", side.module, settings, log]
        done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode:
            raise RuntimeError(f"{side.module} ended with exit code {done.returncode}:\n{done.stderr[-2000:]}")
        return TrainingLog(**json.loads(log.read_text()))


def speed(logs: Sequence[TrainingLog], task: Task) -> float:
    """Episodes a second: the median of the trainings."""
    return statistics.median(task.episodes / log.step_s(WARM_UP) for log in logs)


def reward_difference(logs: Logs, part: slice) -> tuple[float, tuple[float, float]]:
    """Mean and interval of our reward minus TRL's with one thread, over equal steps of trainings with equal deals."""
    pairs = zip(logs[OURS], logs[TRL], strict=True)
    return mean_and_interval(
        [mine - theirs for a, b in pairs for mine, theirs in zip(a.rewards[part], b.rewards[part], strict=True)]
    )


def table(logs: Logs, task: Task) -> Table:
    """The speed of each side, and its rewards in the first and the last third of the steps."""
    speeds = {side: speed(of_side, task) for side, of_side in logs.items()}
    parts = slice(task.steps // 3), slice(-(task.steps // 3), None)
    shown = Table(title=f"Blackjack, {task.groups} groups of {task.group_size} in a step, {task.steps} steps")
    figures = ("episodes/s", "ours is", "processor us/episode", "reward, first third", "reward, last third")
    for heading in ("side", *figures):
        shown.add_column(heading, justify="left" if heading == "side" else "right")
    for side, of_side in logs.items():
        processor_s = statistics.median(log.step_processor_s(WARM_UP) for log in of_side)
        rewards = [mean_and_interval([r for log in of_side for r in log.rewards[part]]) for part in parts]
        shown.add_row(
            side,
            f"{speeds[side]:,.0f}",
            "" if side == OURS else f"{speeds[OURS] / speeds[side]:.2f}x",
            f"{1e6 * processor_s / task.episodes:,.0f}",
            *(_mean_text(*reward) for reward in rewards),
        )
    ratio = ratio_of(speeds)
    floor = FLOORS[task.device]
    colour = "green" if ratio >= floor else "red"
    differences = [_mean_text(*reward_difference(logs, part)) for part in parts]
    shown.add_row("floor, difference", f"{floor:g}x", f"[{colour}]{ratio:.2f}x[/]", "", *differences)
    return shown


def ratio_of(speeds: Mapping[str, float]) -> float:
    """Episodes a second of ours as a multiple of those of the faster TRL."""
    return speeds[OURS] / max(value for side, value in speeds.items() if side != OURS)


def is_met(logs: Logs, task: Task) -> bool:
    """Whether ours reaches the floor, and its rewards are not below TRL's by more than chance explains."""
    ratio = ratio_of({side: speed(of_side, task) for side, of_side in logs.items()})
    _, (_, highest) = reward_difference(logs, slice(None))
    return ratio >= FLOORS[task.device] and highest >= 0


def _mean_text(mean: float, interval: tuple[float, float]) -> str:
    return f"{mean:+.3f} [{interval[0]:+.3f}, {interval[1]:+.3f}]"


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
    """Train both sides, print what was measured, and exit with code 1 if a floor is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.trl", description=__doc__)
    parser.add_argument("--steps", type=int, default=60, help="Optimizer steps of a training (default %(default)s).")
    parser.add_argument("--groups", type=int, default=128, help="Groups of 8 in a step (default %(default)s).")
    parser.add_argument("--rounds", type=int, default=2, help="Trainings of each side (default %(default)s).")
    parser.add_argument("--device", choices=("cpu", "cuda"), default="cpu", help="Of the model (default %(default)s).")
    parser.add_argument("--size", type=int, nargs=2, metavar=("WIDTH", "LAYERS"), default=(64, 2),
                        help="Of the model (default 64 2, as in examples/grpo_blackjack).")  # fmt: skip
    parser.add_argument("--model", help="A pretrained model instead, which learns the form of replies first.")
    parser.add_argument("--plot", type=Path, default=Path("runs/trl.png"), help="The plot (default %(default)s).")
    args = parser.parse_args()
    if args.steps <= WARM_UP + 1 or args.rounds < 1:
        parser.error(f"--steps must be above {WARM_UP + 1}, and --rounds at least 1.")
    console = Console(width=150)
    sides = [name for name, side in SIDES.items() if side.threads or args.device == "cpu"]
    logs: dict[str, list[TrainingLog]] = {name: [] for name in sides}
    with TemporaryDirectory() as folder, named_environment("openspiel").running() as url:
        if args.model:
            made = ours.warm_start(url, Path(folder), args.model, args.device)
        else:
            made = ours.make_model(url, Path(folder), tuple(args.size), args.device)
        model = asyncio.run(made)
        for seed in range(args.rounds):
            task = Task(
                server_url=url,
                model=str(model),
                steps=args.steps,
                groups=args.groups,
                group_size=8,
                lr=1e-6 if args.model else min(1e-3, 0.064 / args.size[0]),
                seed=seed,
                instructions=bool(args.model),
                device=args.device,
            )
            for side, of_side in logs.items():
                of_side.append(trained(SIDES[side], task))
                console.print(f"{side}, seed {seed}: {task.episodes / of_side[-1].step_s(WARM_UP):,.0f} episodes/s")
    console.print(machine())
    console.print(table(logs, task))
    console.print(f"plot: {plot(logs, args.plot)}")
    raise SystemExit(not is_met(logs, task))


if __name__ == "__main__":
    main()
