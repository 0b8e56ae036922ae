"""`openenv train`: GRPO on an environment, from one YAML."""

import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from openenv.rl.config import load_config
from openenv.rl.demo import run_demo_blocking, with_game
from openenv.rl.results import Interval, Result

EXAMPLE = "Example: `openenv train examples/grpo_blackjack/blackjack.yaml --game catch`"


def train(
    config: Path = typer.Argument(help="The run's YAML file.", exists=True, dir_okay=False),
    game: str = typer.Option(None, help="Another game of the environment (default: the one in the file)."),
    steps: int = typer.Option(None, min=1, help="Optimizer steps (default: as many as the file says)."),
    resume: bool = typer.Option(False, "--resume", help="Go on with the run of this name (default: start anew)."),
) -> None:
    """Train a language model to play, compare it with baselines before and after, and write a report."""
    wanted = load_config(config)
    if game is not None:
        wanted = with_game(wanted, game)
    if steps is not None:
        training = dataclasses.replace(wanted.trainer.training, steps=steps)
        wanted = dataclasses.replace(wanted, trainer=dataclasses.replace(wanted.trainer, training=training))
    with _progress() as progress:
        result = run_demo_blocking(wanted, resume=resume, on_progress=_Reporter(progress))
    Console().print(results_table(result.results))
    typer.echo(f"report: {result.report}")


def results_table(results: Sequence[Result]) -> Table:
    """Who played how well, in the order of the run, with 95 % intervals; exact numbers have none."""
    table = Table("player", title="Win rate and mean return of the game, with 95 % intervals")
    for heading in ("win rate", "mean return", "games", "unparseable", "invalid"):
        table.add_column(heading, justify="right")
    for row in results:
        counts = [str(row.num_games), str(row.num_unparseable), str(row.num_invalid)]
        table.add_row(
            row.name,
            f"{row.win_rate:.2%}{_between(row.win_interval, '.2%')}",
            f"{row.mean_return:+.4f}{_between(row.return_interval, '+.4f')}",
            *(counts if row.num_games else ["exact", "", ""]),
        )
    return table


def _between(interval: Interval | None, form: str) -> str:
    return f" ({interval[0]:{form}} to {interval[1]:{form}})" if interval else ""


def _progress() -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, TextColumn("{task.fields[known]}"), console=Console(stderr=True))


class _Reporter:
    """Shows each phase of a run as a bar with the newest figures; away from a terminal, as a line for each tenth."""

    def __init__(self, progress: Progress) -> None:
        self._progress = progress
        self._tasks: dict[str, TaskID] = {}
        self._tenths: dict[str, int] = {}

    def __call__(self, phase: str, done: int, total: int, known: dict[str, Any]) -> None:
        figures = " ".join(f"{key} {known[key]:.3f}" for key in ("win_rate", "return", "kl") if key in known)
        if not self._progress.console.is_terminal:
            self._say(phase, done, total, figures)
            return
        if phase not in self._tasks:
            self._tasks[phase] = self._progress.add_task(phase, total=total, known="")
        self._progress.update(self._tasks[phase], completed=done, total=total, known=figures)

    def _say(self, phase: str, done: int, total: int, figures: str) -> None:
        tenth = 10 * done // max(1, total)
        if self._tenths.get(phase) != tenth:
            self._tenths[phase] = tenth
            typer.echo(f"{phase}: {done} of {total} {figures}".rstrip(), err=True)
