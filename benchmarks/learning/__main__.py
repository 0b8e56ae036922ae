"""Does one configuration learn every environment? `python -m benchmarks.learning [--only NAME ...]`, or `make
bench-learning`.

Each environment is trained from `benchmarks/learning.yaml` with several seeds, each run in a process of its own. Only
the environment differs. The table shows the mean over the seeds, and the lowest and the highest of them.
"""

import argparse
import dataclasses
import json
import statistics
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from benchmarks.learning.runs import Run, run_apart
from benchmarks.learning.tasks import SETS, Goal, Measure
from benchmarks.report import RESULTS, machine

RECORDS = "benchmarks/learning/records"
CONFIG = Path(__file__).parents[1] / "learning.yaml"
CONFIGS = {"tiny": CONFIG, "smollm2": Path(__file__).parents[1] / "models.yaml"}
HEADINGS = (
    "environment",
    "random",
    "trained: mean [lowest, highest]",
    "optimum",
    "floor",
    "runs",
    "minutes a run",
    "commit",
)
NAMES: dict[Measure, str] = {
    "win_rate": "win rate",
    "mean_return": "mean return",
    "hit_to_11": "hits up to hard 11",
    "hit_from_17": "hits from hard 17",
}
MOST_UNPARSEABLE = 0.01
"""The largest share of games that may end with a reply without an action."""


@dataclass(frozen=True)
class Row:
    """A goal of a task with its runs."""

    task: str
    goal: Goal
    runs: Sequence[Run]

    def values(self, player: Literal["random", "before", "trained"]) -> list[float]:
        """The measure of a player in each run that did not fail."""
        values = [run.value(player, self.goal.measure) for run in self.runs]
        return [value for value in values if value is not None]

    @property
    def unparseable(self) -> float:
        """The share of games that a reply without an action ended. Mean returns leave them out."""
        trained = [run.trained for run in self.runs if run.trained is not None]
        games = sum(result.num_games for result in trained)
        return sum(result.num_unparseable for result in trained) / games if games else 0.0

    @property
    def is_met(self) -> bool:
        """Whether no run failed, the replies can be read, and the mean over the seeds reaches the floor."""
        trained = self.values("trained")
        if len(trained) < len(self.runs) or self.unparseable > MOST_UNPARSEABLE:
            return False
        mean, goal = statistics.fmean(trained), self.goal
        is_low = goal.floor is not None and mean < goal.floor
        is_high = goal.ceiling is not None and mean > goal.ceiling
        before = self.values("before")
        is_like_before = goal.times_before is not None and mean < goal.times_before * statistics.fmean(before)
        return not (is_low or is_high or is_like_before)

    @property
    def cells(self) -> tuple[str | Text, ...]:
        """What the table shows."""
        trained, goal = self.values("trained"), self.goal
        shown = "failed"
        if trained:
            number = self._number(statistics.fmean(trained))
            shown = f"{number} [{self._number(min(trained))}, {self._number(max(trained))}]"
        if self.unparseable:
            shown += f", {self.unparseable:.1%} unparseable"
        random = self.values("random")
        minutes = statistics.fmean(run.minutes for run in self.runs)
        wanted = self._number(goal.floor)
        if goal.ceiling is not None:
            wanted = f"at most {self._number(goal.ceiling)}"
        if goal.times_before is not None:
            before = self.values("before")
            wanted = f"{goal.times_before:g} x {self._number(statistics.fmean(before)) if before else 'before'}"
        return (
            f"{self.task}, {NAMES[goal.measure]}",
            self._number(statistics.fmean(random)) if random else "",
            Text(shown, "green" if self.is_met else "red"),
            self._number(goal.optimum),
            wanted,
            str(len(self.runs)),
            f"{minutes:.1f}",
            ", ".join(sorted({run.commit for run in self.runs})),
        )

    def _number(self, value: float | None) -> str:
        if value is None:
            return ""
        return f"{value:.3f}" if self.goal.measure == "mean_return" else f"{100 * value:.1f} %"


def rows_of(runs: Sequence[Run], tasks: str = "tiny") -> list[Row]:
    """The rows of the tasks of a set that have runs."""
    by_task = {name: [run for run in runs if run.task == name] for name in SETS[tasks]}
    return [Row(name, goal, done) for name, done in by_task.items() if done for goal in SETS[tasks][name].goals]


def show(runs: Sequence[Run], tasks: str = "tiny") -> None:
    """Print the table, and the errors of failed runs."""
    table = Table(title="What one configuration learns")
    for heading in HEADINGS:
        table.add_column(escape(heading), justify="left" if heading == HEADINGS[0] else "right")
    for row in rows_of(runs, tasks):
        table.add_row(*row.cells)
    console = Console(width=150)
    console.print(table)
    for run in runs:
        if run.error:
            console.print(f"{run.task}, seed {run.seed}: {run.error}", markup=False)


def markdown(runs: Sequence[Run], tasks: str = "tiny") -> str:
    """The table for the documentation, without the commits."""
    lines = [HEADINGS[:-1], ["---"] * (len(HEADINGS) - 1), *(row.cells[:-1] for row in rows_of(runs, tasks))]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def write(runs: Sequence[Run], config: Path, tasks: str = "tiny") -> Path:
    """Write the results as JSON and as a table to the folder of results; return the path of the first."""
    RESULTS.mkdir(exist_ok=True)
    rows = [
        {"task": row.task, **dataclasses.asdict(row.goal), "random": row.values("random"),
         "trained": row.values("trained"), "is_met": row.is_met}
        for row in rows_of(runs, tasks)
    ]  # fmt: skip
    body = {
        "machine": machine(),
        "config": str(config),
        "rows": rows,
        "runs": [dataclasses.asdict(run) for run in runs],
    }
    path = RESULTS / ("learning.json" if tasks == "tiny" else f"learning-{tasks}.json")
    path.write_text(json.dumps(body, indent=1) + "\n")
    path.with_suffix(".md").write_text(markdown(runs, tasks) + "\n")
    return path


def main() -> None:
    """Train, print the table, and exit with code 1 if a floor is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tasks", choices=SETS, default="tiny", help="Tasks, by the model (default %(default)s).")
    parser.add_argument("--only", nargs="+", help="Environments (default all).")
    parser.add_argument("--seeds", type=int, help="Runs of each environment (default 3, with SmolLM2 2).")
    parser.add_argument("--first-seed", type=int, default=0, help="The first seed (default %(default)s).")
    parser.add_argument("--config", type=Path, help="The configuration (default that of the tasks).")
    parser.add_argument("--folder", type=Path, default=Path("runs/learning"),
                        help="Folder of the runs (default %(default)s).")  # fmt: skip
    parser.add_argument("--records", type=Path, default=Path("runs/learning/records"),
                        help="Folder of the results of finished runs, which are not run again (default %(default)s). "
                        f"{RECORDS} has those of the documentation.")  # fmt: skip
    args = parser.parse_args()
    config = args.config or CONFIGS[args.tasks]
    names = args.only or list(SETS[args.tasks])
    unknown = [name for name in names if name not in SETS[args.tasks]]
    if unknown:
        parser.error(f"--only {' '.join(unknown)}: known are {', '.join(SETS[args.tasks])}")
    first, number = args.first_seed, args.seeds or (3 if args.tasks == "tiny" else 2)
    runs: list[Run] = []
    for name in names:
        for seed in range(first, first + number):
            runs.append(run_apart(args.tasks, name, seed, config, args.folder, args.records))
            path = write(runs, config, args.tasks)
        show(runs, args.tasks)
    print(f"written: {path}")
    raise SystemExit(not all(row.is_met for row in rows_of(runs, args.tasks)))


if __name__ == "__main__":
    main()
