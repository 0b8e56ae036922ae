"""`openenv check`: check whether an environment keeps the specification."""

from collections import Counter
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from openenv.auto.environment import token_headers
from openenv.auto.resolver import FORMS
from openenv.cli.completion import environment_names
from openenv.cli.playing.evaluation_options import reset_keywords
from openenv.evaluation.quality import CheckRow, check_environment
from openenv.evaluation.tables import table_console
from openenv.formats.json_text import json_text

EXAMPLE = "Examples: `openenv check http://localhost:8000`, `openenv check my_env --seconds 30`"
COLOURS = {"pass": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}


def check(
    target: str = typer.Argument(
        help=f"Check this environment: {FORMS}.",
        metavar="ENVIRONMENT",
        autocompletion=environment_names,
    ),
    seed: int = typer.Option(0, min=0, help="Start the first episode from this seed."),
    seconds: float = typer.Option(
        60.0, min=5.0, help="Stop all checks after this many seconds (default 60).", show_default=False
    ),
    game: str | None = typer.Option(None, help="Check this game, where there are several (default: the server's)."),
    reset: list[str] = typer.Option(
        [], help="Send KEY=VALUE with every reset; VALUE is JSON or a word. Repeatable (default: none)."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table (default: a table)."),
) -> None:
    """Check whether an environment keeps the specification and is worth training on. The command serves an
    environment of this machine by itself, and then runs more checks. It sends the token of OPENENV_TOKEN, if that is
    set. The exit code is 1 if a check fails."""
    rows = run_checks(target, seed=seed, seconds=seconds, reset=reset_keywords(target, reset, game))
    report(target, rows, as_json=as_json)


def run_checks(target: str, **options: Any) -> list[CheckRow]:
    """The rows of the checks of `target`, with the token of OPENENV_TOKEN. options: those of `check_environment`."""
    with Console(stderr=True, emoji=False).status("starting") as status:
        return check_environment(
            target, headers=token_headers(), on_check=lambda name: status.update(f"checking: {name}"), **options
        )


def report(target: str, rows: list[CheckRow], *, as_json: bool) -> None:
    """Print the rows. Ends with exit code 1 if a check fails."""
    if as_json:
        typer.echo(json_text(as_object(target, rows), indent=2))
    else:
        table_console().print(table(target, rows))
    if any(row.result.status == "fail" for row in rows):
        raise typer.Exit(1)


def table(target: str, rows: list[CheckRow]) -> Table:
    """Return a table with a row for each check: its status, what it found, and the remedy."""
    counted: Counter[str] = Counter(row.result.status for row in rows)
    totals = ", ".join(f"{counted[status]} {status}" for status in COLOURS if counted[status])
    shown = Table(
        title=f"{target}: {totals} in {sum(row.took_s for row in rows):.0f} s", box=box.SIMPLE, pad_edge=False
    )
    shown.add_column("check", no_wrap=True)
    shown.add_column("", no_wrap=True)
    shown.add_column("seen")
    shown.add_column("remedy")
    for row in rows:
        status, texts = row.result.status, (escape(row.result.seen), escape(row.result.remedy))
        shown.add_row(row.check, f"[{COLOURS[status]}]{status}[/]", *texts)
    return shown


def as_object(target: str, rows: list[CheckRow]) -> dict[str, Any]:
    """Return the content of the table as JSON values."""
    return {
        "target": target,
        "ok": all(row.result.status != "fail" for row in rows),
        "rows": [
            {
                "check": row.check,
                "status": row.result.status,
                "seen": row.result.seen,
                "remedy": row.result.remedy,
                "took_s": round(row.took_s, 3),
            }
            for row in rows
        ],
    }
