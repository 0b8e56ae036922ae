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
from benchmarks.learning.tasks import TASKS, Goal
from benchmarks.report import RESULTS, machine

RECORDS = "benchmarks/learning/records"
CONFIG = Path(__file__).parents[1] / "learning.yaml"
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
MOST_UNPARSEABLE = 0.01
"""The largest share of games that may end with a reply without an action."""


@dataclass(frozen=True)
class Row:
    """A goal of a task with its runs."""

    task: str
    goal: Goal
    runs: Sequence[Run]

    def values(self, player: Literal["random", "trained"]) -> list[float]:
        """The measure of a player in each run that did not fail."""
        results = [getattr(run, player) for run in self.runs]
        return [getattr(result, self.goal.measure) for result in results if result is not None]

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
        return self.goal.floor is None or statistics.fmean(trained) >= self.goal.floor

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
        name = "win rate" if goal.measure == "win_rate" else "mean return"
        return (
            f"{self.task}, {name}",
            self._number(statistics.fmean(random)) if random else "",
            Text(shown, "green" if self.is_met else "red"),
            self._number(goal.optimum),
            self._number(goal.floor),
            str(len(self.runs)),
            f"{minutes:.1f}",
            ", ".join(sorted({run.commit for run in self.runs})),
        )

    def _number(self, value: float | None) -> str:
        if value is None:
            return ""
        return f"{100 * value:.1f} %" if self.goal.measure == "win_rate" else f"{value:.3f}"


def rows_of(runs: Sequence[Run]) -> list[Row]:
    """The rows of the tasks that have runs."""
    by_task = {name: [run for run in runs if run.task == name] for name in TASKS}
    return [Row(name, goal, done) for name, done in by_task.items() if done for goal in TASKS[name].goals]


def show(runs: Sequence[Run]) -> None:
    """Print the table, and the errors of failed runs."""
    table = Table(title="What one configuration learns")
    for heading in HEADINGS:
        table.add_column(escape(heading), justify="left" if heading == HEADINGS[0] else "right")
    for row in rows_of(runs):
        table.add_row(*row.cells)
    console = Console(width=150)
    console.print(table)
    for run in runs:
        if run.error:
            console.print(f"{run.task}, seed {run.seed}: {run.error}", markup=False)


def markdown(runs: Sequence[Run]) -> str:
    """The table for the documentation, without the commits."""
    lines = [HEADINGS[:-1], ["---"] * (len(HEADINGS) - 1), *(row.cells[:-1] for row in rows_of(runs))]
    return "\n".join(f"| {' | '.join(map(str, line))} |" for line in lines)


def write(runs: Sequence[Run], config: Path) -> Path:
    """Write `learning.json` and `learning.md` to the folder of results; return the path of the first."""
    RESULTS.mkdir(exist_ok=True)
    rows = [
        {"task": row.task, **dataclasses.asdict(row.goal), "random": row.values("random"),
         "trained": row.values("trained"), "is_met": row.is_met}
        for row in rows_of(runs)
    ]  # fmt: skip
    body = {
        "machine": machine(),
        "config": str(config),
        "rows": rows,
        "runs": [dataclasses.asdict(run) for run in runs],
    }
    path = RESULTS / "learning.json"
    path.write_text(json.dumps(body, indent=1) + "\n")
    path.with_suffix(".md").write_text(markdown(runs) + "\n")
    return path


def main() -> None:
    """Train, print the table, and exit with code 1 if a floor is missed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="+", choices=TASKS, default=list(TASKS), help="Environments (default all).")
    parser.add_argument("--seeds", type=int, default=3, help="Runs of each environment (default %(default)s).")
    parser.add_argument("--config", type=Path, default=CONFIG, help="The configuration (default %(default)s).")
    parser.add_argument("--folder", type=Path, default=Path("runs/learning"),
                        help="Folder of the runs (default %(default)s).")  # fmt: skip
    parser.add_argument("--records", type=Path, default=Path("runs/learning/records"),
                        help="Folder of the results of finished runs, which are not run again (default %(default)s). "
                        f"{RECORDS} has those of the documentation.")  # fmt: skip
    args = parser.parse_args()
    runs: list[Run] = []
    for name in args.only:
        for seed in range(args.seeds):
            runs.append(run_apart(name, seed, args.config, args.folder, args.records))
            path = write(runs, args.config)
        show(runs)
    print(f"written: {path}")
    raise SystemExit(not all(row.is_met for row in rows_of(runs)))


if __name__ == "__main__":
    main()
