"""Where a page listens: options of the commands that serve one."""

from typing import Any

import typer

from openenv.pages.server import DEFAULT_PORT

PORT: Any = typer.Option(DEFAULT_PORT, min=0, max=65535, help="Serve the page on this port; 0 for a free one.")
HOST: Any = typer.Option(
    "127.0.0.1",
    help="Serve the page on this address; one that other machines reach needs OPENENV_TOKEN.",
)
