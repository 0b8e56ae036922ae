"""`openenv envs`: list the bundled environments and their tasks."""

import json
from collections.abc import Sequence

import typer
from rich.console import Console
from rich.table import Table

from openenv.envs.catalog import CatalogEntry, entries

EXAMPLE = "Example: `openenv envs`"


def envs(
    list_tasks: bool = typer.Option(
        False, "--list", help="List the tasks of each installed environment, and count them (default: environments)."
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table (default: a table)."),
) -> None:
    """List the environments that come with openenv, their extra, and whether it is installed."""
    found = entries()
    if list_tasks:
        _list_tasks([entry for entry in found if entry.is_installed], as_json=as_json)
        return
    if as_json:
        typer.echo(json.dumps([_row(entry) for entry in found], indent=2))
        return
    table = Table("environment", "installed", "extra", "description")
    for entry in found:
        table.add_row(
            entry.name, "yes" if entry.is_installed else "no", entry.extra or "none needed", entry.description
        )
    Console().print(table)


def _list_tasks(installed: Sequence[CatalogEntry], *, as_json: bool) -> None:
    """Print the tasks by environment, with the reset keywords of each."""
    tasks = {entry.name: entry.load_tasks() for entry in installed}
    if as_json:
        typer.echo(json.dumps(tasks, indent=2))
        return
    for name, keywords in tasks.items():
        typer.echo(f"{name}, {len(keywords)}: {', '.join(keywords)}\n")
    typer.echo(f"{sum(map(len, tasks.values()))} tasks in {len(tasks)} environments")


def _row(entry: CatalogEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "description": entry.description,
        "extra": entry.extra,
        "installed": entry.is_installed,
        "server": entry.server,
        "client": entry.client,
    }
