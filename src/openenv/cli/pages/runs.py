"""`openenv runs`: a page with the runs of training."""

import os
from pathlib import Path

import typer

from openenv.cli.pages.options import HOST, PORT
from openenv.pages.runs import runs_app
from openenv.pages.server import PageServer, access_config

EXAMPLE = "Example: `openenv runs`, while `openenv train` runs in another terminal"


def runs(
    folder: Path = typer.Argument(
        Path("runs"), file_okay=False, help="Serve the runs in this folder (default runs).", show_default=False
    ),
    port: int = PORT,
    host: str = HOST,
) -> None:
    """Serve a page with curves of runs while they train, their transcripts, and their settings, until interrupted."""
    app = runs_app(folder, access_config(host, os.environ.get("OPENENV_TOKEN")))
    with PageServer(app, host, port) as server:
        place = folder if folder.is_dir() else f"{folder}, which is not there yet,"
        typer.echo(f"runs of {place} at {server.url}; stop it with Ctrl-C", err=True)
        server.wait()
