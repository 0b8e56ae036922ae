"""`openenv check`: is this a sound environment?"""

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import typer
from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from openenv.evaluation.quality import Row, check_folder, check_url

EXAMPLE = "Examples: `openenv check http://localhost:8000`, `openenv check my_env --seconds 30`"
_COLOURS = {"pass": "green", "warn": "yellow", "fail": "bold red", "skip": "dim"}


def check(
    target: str = typer.Argument(help="URL of a running server, or an environment's folder (with openenv.yaml).",
                                 metavar="URL_OR_FOLDER"),
    seed: int = typer.Option(0, min=0, help="Seed of the first episode (default 0)."),
    seconds: float = typer.Option(60.0, min=5.0, help="Seconds that all checks may take together (default 60)."),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of the table (default: table)."),
) -> None:  # fmt: skip
    """Check whether an environment keeps the specification and is worth training on. A folder is served for the check,
    which then sees more. Exit code 1 when a check failed; a token, if the server wants one, is read from
    OPENENV_TOKEN."""
    progress = Console(stderr=True)
    token = os.environ.get("OPENENV_TOKEN")
    options: dict[str, Any] = {
        "seed": seed,
        "seconds": seconds,
        "headers": {"Authorization": f"Bearer {token}"} if token else None,
    }
    with progress.status("starting") as status:
        options["on_check"] = lambda name: status.update(f"checking: {name}")
        rows = check_url(target, **options) if "://" in target else check_folder(Path(target), **options)
    if as_json:
        typer.echo(json.dumps(as_object(target, rows), indent=2))
    else:
        Console().print(table(target, rows))
    if any(row.finding.status == "fail" for row in rows):
        raise typer.Exit(1)


def table(target: str, rows: list[Row]) -> Table:
    """One row for each check, with what to do about it below what was seen."""
    counted: Counter[str] = Counter(row.finding.status for row in rows)
    told = ", ".join(f"{counted[status]} {status}" for status in _COLOURS if counted[status])
    shown = Table(title=f"{target}: {told} in {sum(row.took_s for row in rows):.0f} s", box=box.SIMPLE, pad_edge=False)
    shown.add_column("check", no_wrap=True)
    shown.add_column("", no_wrap=True)
    shown.add_column("seen")
    shown.add_column("remedy")
    for row in rows:
        status, said = row.finding.status, (escape(row.finding.seen), escape(row.finding.remedy))
        shown.add_row(row.check, f"[{_COLOURS[status]}]{status}[/]", *said)
    return shown


def as_object(target: str, rows: list[Row]) -> dict[str, Any]:
    """The same for programs."""
    return {
        "target": target,
        "ok": all(row.finding.status != "fail" for row in rows),
        "rows": [
            {
                "check": row.check,
                "status": row.finding.status,
                "seen": row.finding.seen,
                "remedy": row.finding.remedy,
                "took_s": round(row.took_s, 3),
            }
            for row in rows
        ],
    }
