"""Where a page listens: options of the commands that serve one."""

from dataclasses import dataclass
from typing import Annotated

import typer


@dataclass(frozen=True, kw_only=True)
class PageOptions:
    """The address of a page."""

    port: Annotated[int, typer.Option(min=0, max=65535, help="Serve the page on this port; 0 for a free one.")] = 8080
    host: Annotated[
        str, typer.Option(help="Serve the page on this address; one that other machines reach needs OPENENV_TOKEN.")
    ] = "127.0.0.1"
