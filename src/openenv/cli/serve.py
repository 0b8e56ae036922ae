"""`openenv serve`: run an environment's server."""

import importlib
import os
import sys

import typer

from openenv.core.env_server import serve as serve_app
from openenv.core.env_server.app_source import made_from
from openenv.core.protocol import UNIX
from openenv.envs.catalog import CatalogEntry, load

EXAMPLE = "Examples: `openenv serve openspiel --game blackjack --port 8004`, `openenv serve my_env.server.app:app`"
PASSES_OPTIONS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def serve(
    context: typer.Context,
    environment: str = typer.Argument(help="A name of `openenv envs`, or MODULE:APP of your own."),
    host: str = typer.Option("127.0.0.1", help="Address, or unix:/path of a socket (default 127.0.0.1)."),
    port: int = typer.Option(8000, help="Port to listen on (default 8000)."),
    workers: int = typer.Option(1, help="Processes that share the sessions behind the port (default 1)."),
) -> None:
    """Serve an environment until interrupted. Further options go to the environment's own server: `--game chess`, or
    any limit (`python -m openenv.envs.echo_env.server.app --help` lists them)."""
    if ":" in environment:
        if context.args:
            raise typer.BadParameter(f"{environment} takes no further options, got {' '.join(context.args)}")
        sys.path.insert(0, os.getcwd())  # an author serves what lies in the current folder, as with any server command
        made_from(environment)  # what is wrong with it is said before it is announced
        _announce(environment, host, port)
        serve_app(environment, host, port, workers=workers)
    else:
        entry = installed(load(environment))
        server = importlib.import_module(entry.server)
        _announce(environment, host, port)
        server.main([*context.args, "--host", host, "--port", str(port), "--workers", str(workers)])


def _announce(environment: str, host: str, port: int) -> None:
    where = host if host.startswith(UNIX) else f"http://{host}:{port}"
    typer.echo(f"serving {environment} at {where} (documentation at /docs); Ctrl-C ends it", err=True)


def installed(entry: CatalogEntry) -> CatalogEntry:
    """`entry` itself. Raises RuntimeError that names the extra to install when something is missing."""
    if not entry.is_installed:
        raise RuntimeError(
            f"environment {entry.name!r} needs {', '.join(entry.requires)}: pip install 'openenv-rl[{entry.extra}]'"
        )
    return entry
