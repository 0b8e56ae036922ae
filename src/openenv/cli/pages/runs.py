"""`openenv runs`: a page with the runs of training."""

import os
from pathlib import Path

import typer

from openenv.cli.option_groups import with_option_groups
from openenv.cli.pages.options import PageOptions

EXAMPLE = "Example: `openenv runs`, while `openenv train` runs in another terminal"


@with_option_groups
def runs(
    folder: Path = typer.Argument(
        Path("runs"), file_okay=False, help="Serve the runs in this folder (default runs).", show_default=False
    ),
    page: PageOptions = PageOptions(),
) -> None:
    """Serve a page with curves of runs while they train, their transcripts, and their settings, until interrupted."""
    from openenv.pages.runs import runs_app
    from openenv.pages.server import PageServer, access_config

    app = runs_app(folder, access_config(page.host, os.environ.get("OPENENV_TOKEN")))
    with PageServer(app, page.host, page.port) as server:
        place = folder if folder.is_dir() else f"{folder}, which is not there yet,"
        typer.echo(f"runs of {place} at {server.url}; stop it with Ctrl-C", err=True)
        server.wait()
