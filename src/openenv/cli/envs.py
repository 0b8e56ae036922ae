"""`openenv envs`: list the bundled environments."""

import json

import typer
from rich.console import Console
from rich.table import Table

from openenv.envs.catalog import CatalogEntry, entries

EXAMPLE = "Example: `openenv envs`"


def envs(
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table (default: a table)."),
) -> None:
    """List the environments that come with openenv, their extra, and whether it is installed."""
    found = entries()
    if as_json:
        typer.echo(json.dumps([_row(entry) for entry in found], indent=2))
        return
    table = Table("environment", "installed", "extra", "description")
    for entry in found:
        table.add_row(
            entry.name, "yes" if entry.is_installed else "no", entry.extra or "none needed", entry.description
        )
    Console().print(table)


def _row(entry: CatalogEntry) -> dict[str, object]:
    return {
        "name": entry.name,
        "description": entry.description,
        "extra": entry.extra,
        "installed": entry.is_installed,
        "server": entry.server,
        "client": entry.client,
    }
