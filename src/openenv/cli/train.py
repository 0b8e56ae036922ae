"""`openenv train`: GRPO on an environment, from one YAML."""

import dataclasses
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from openenv.rl.config import load_config
from openenv.rl.demo import run_demo_blocking, with_game
from openenv.rl.results import Interval, Result, reply_share

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
    for line in remarks(result.results):
        typer.echo(line)
    typer.echo(f"report: {result.report}")


def results_table(results: Sequence[Result]) -> Table:
    """Who played how well, in the order of the run, with 95 % intervals; exact numbers have none."""
    table = Table(title="Win rate and mean return of the game, with 95 % intervals", box=box.SIMPLE, pad_edge=False)
    table.add_column("player", no_wrap=True)
    for heading in ("win rate", "mean return", "games"):
        table.add_column(heading, justify="right", no_wrap=True)
    for row in results:
        table.add_row(
            row.name,
            f"{row.win_rate:.2%}{_between(row.win_interval, 100, '.1f')}",
            f"{row.mean_return:+.4f}{_between(row.return_interval, 1, '+.3f')}",
            f"{row.num_games}" if row.num_games else "exact",
        )
    return table


def remarks(results: Sequence[Result]) -> Iterator[str]:
    """What the table does not say: replies that were no legal action, games that the environment broke, and in
    blackjack whether the cards are looked at."""
    for row in results:
        if row.num_unparseable:
            yield f"{row.name}: {row.num_unparseable} games ended by a reply that names no legal action (not won)"
        if row.num_invalid:
            yield f"{row.name}: {row.num_invalid} further games were broken by the environment (not counted)"
        low, high = (reply_share(row, "hit", "hard", totals) for totals in (range(4, 12), range(17, 22)))
        if row.role in ("before", "after") and not math.isnan(low):
            yield f"{row.name}: P(hit) is {low:.3f} for hard totals up to 11 and {high:.3f} from hard 17"


def _between(interval: Interval | None, scale: float, form: str) -> str:
    return f" [{scale * interval[0]:{form}}, {scale * interval[1]:{form}}]" if interval else ""


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
        figures = " ".join(
            f"{key} {known[key]:.3f}" for key in ("win_rate", "return", "kl") if known.get(key) is not None
        )
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
