"""`openenv search`: find an environment in a catalog."""

import typer
from rich.markup import escape
from rich.table import Table

from openenv.cli.hub.places import PLACES, opened
from openenv.evaluation.tables import table_console
from openenv.formats.json_text import json_text

EXAMPLE = "Examples: `openenv search cards`, `openenv search maze --catalog git+https://github.com/owner/environments`"


def search(
    words: list[str] = typer.Argument(
        None, help="Words of its name or description, or their beginnings (default: list all).", show_default=False
    ),
    catalog: str | None = typer.Option(
        None,
        envvar="OPENENV_CATALOG",
        help=f"Search this catalog: {PLACES} (default: the environments that come with openenv).",
    ),
    as_json: bool = typer.Option(False, "--json", help="Print JSON instead of a table (default: a table)."),
) -> None:
    """Find environments in a catalog, those with most of the words first, and how the proofs of `openenv certify` ended
    for each. Nothing of them is run."""
    with opened(catalog) as found:
        entries = found.search(words or [])
    if as_json:
        rows = [
            {"name": one.name, "version": one.version, "description": one.description, "digest": one.source.digest,
             "proofs": None if one.card is None else {each["name"]: each["status"] for each in one.card.proofs}}
            for one in entries
        ]  # fmt: skip
        typer.echo(json_text(rows, indent=2))
        return
    table = Table("environment", "version", "proofs", "description")
    for one in entries:
        table.add_row(*(escape(text) for text in (one.name, one.version[:12], one.proofs, one.description)))
    table_console().print(table)
