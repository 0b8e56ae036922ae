"""`openenv envs`: list the bundled environments and their tasks, or measure them."""

import logging
from collections.abc import Sequence

import typer
from pydantic_core import to_json
from rich import box
from rich.console import Console
from rich.table import Table

from openenv.core.errors import OpenEnvError
from openenv.envs.catalog import CatalogEntry, entries, load
from openenv.evaluation.intervals import Summary
from openenv.evaluation.measuring import SHOWN_CHECKS, Measurement, measure
from openenv.evaluation.tables import NO_RETURN, number_text, table_console
from openenv.formats.json_text import json_text

log = logging.getLogger(__name__)

EXAMPLE = "Examples: `openenv envs`, `openenv envs --list`, `openenv envs --measure --only maze`"


def envs(
    list_tasks: bool = typer.Option(
        False, "--list", help="List the tasks of each installed environment, and count them (default: environments)."
    ),
    measured: bool = typer.Option(
        False,
        "--measure",
        help="Measure each installed environment: steps/s beside the bare library, players, checks (default: list).",
    ),
    only: list[str] = typer.Option(
        [], "--only", help="Measure only this environment; may be repeated (default: all).", show_default=False
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table (default: a table)."),
) -> None:
    """List the environments that come with openenv, their extra, and whether it is installed."""
    found = entries()
    if measured:
        playable = [entry for entry in found if entry.is_installed and not entry.missing_programs]
        chosen = [load(name) for name in only] if only else playable
        _measure(chosen, as_json=as_json)
        return
    if list_tasks:
        _list_tasks([entry for entry in found if entry.is_installed], as_json=as_json)
        return
    if as_json:
        typer.echo(json_text([_row(entry) for entry in found], indent=2))
        return
    table = Table("environment", "installed", "extra", "description")
    for entry in found:
        table.add_row(
            entry.name, "yes" if entry.is_installed else "no", entry.extra or "none needed", entry.description
        )
    table_console().print(table)


def _list_tasks(installed: Sequence[CatalogEntry], *, as_json: bool) -> None:
    """Print the tasks by environment, with the reset keywords of each."""
    tasks = {entry.name: entry.load_tasks() for entry in installed}
    if as_json:
        typer.echo(json_text(tasks, indent=2))
        return
    for name, keywords in tasks.items():
        typer.echo(f"{name}, {len(keywords)}: {', '.join(keywords)}\n")
    typer.echo(f"{sum(map(len, tasks.values()))} tasks in {len(tasks)} environments")


def _measure(chosen: Sequence[CatalogEntry], *, as_json: bool) -> None:
    """Print a row for each measured task."""
    rows: list[Measurement] = []
    problems: list[str] = []
    try:
        with Console(stderr=True, emoji=False).status("starting") as status:
            for entry in chosen:
                log.info("measuring environment=%s", entry.name)
                try:
                    rows += measure(entry, on_progress=status.update)
                except (OpenEnvError, RuntimeError, OSError, ImportError) as error:
                    problems.append(f"{entry.name}: {error}")
    finally:
        _show(rows, as_json=as_json)  # also after Ctrl-C, with what was measured
    for problem in problems:
        typer.echo(problem, err=True)
    if problems:
        raise typer.Exit(1)


def _show(rows: Sequence[Measurement], *, as_json: bool) -> None:
    if as_json:
        typer.echo(to_json(rows, indent=2, inf_nan_mode="null").decode())
        return
    table = Table("environment", "task", box=box.SIMPLE, pad_edge=False)
    for heading in ("steps/s", "bare library", "ratio", "random", "heuristic", "optimum", *SHOWN_CHECKS):
        table.add_column(heading, justify="right")
    for row in rows:
        table.add_row(*_cells(row))
    table_console(190).print(table)


def _cells(row: Measurement) -> list[str]:
    return [
        row.environment,
        row.task,
        f"{row.client_steps:,.0f}",
        f"{row.bare_steps:,.0f}",
        f"{row.client_steps / row.bare_steps:.1%}",
        _mean_text(row.random),
        "" if row.heuristic is None else _mean_text(row.heuristic),
        "" if row.best_return is None else f"{row.best_return:+.4f}",
        *(row.checks[name] for name in SHOWN_CHECKS),
    ]


def _mean_text(summary: Summary) -> str:
    low, high = summary.return_interval
    return number_text(summary.mean_return, "+.3f", f" ± {(high - low) / 2:.3f}", none=NO_RETURN)


def _row(entry: CatalogEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "description": entry.description,
        "extra": entry.extra,
        "installed": entry.is_installed,
        "server": entry.server,
        "client": entry.client,
    }
