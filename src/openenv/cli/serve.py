"""`openenv serve`: run the server of an environment, also for other commands."""

import importlib
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import typer

from openenv.core.containers.local_process import LocalServer
from openenv.core.env_server import serve as serve_app
from openenv.core.env_server.serving.graceful_server import load_app
from openenv.core.wire.constants import UNIX
from openenv.envs.catalog import CatalogEntry, load

EXAMPLE = "Examples: `openenv serve openspiel --game blackjack --port 8004`, `openenv serve my_env.server.app:app`"
PASSES_OPTIONS_ON = {"allow_extra_args": True, "ignore_unknown_options": True}


def serve(
    context: typer.Context,
    environment: str = typer.Argument(
        help="Serve this environment of `openenv envs`, or an application as MODULE:APP."
    ),
    host: str = typer.Option(
        "127.0.0.1", help="Listen on this address, or on a socket at unix:/path (default 127.0.0.1)."
    ),
    port: int = typer.Option(8000, help="Listen on this port (default 8000)."),
    workers: int = typer.Option(1, help="Share the sessions among this many processes (default 1)."),
) -> None:
    """Serve an environment until interrupted. Other options are those of the environment's server: `--game chess`, or
    any limit (`python -m openenv.envs.echo_env.server.app --help` lists them)."""
    if ":" in environment:
        if context.args:
            raise typer.BadParameter(f"{environment} takes no other options, got {' '.join(context.args)}")
        sys.path.insert(0, os.getcwd())  # imports from the current folder, like other server commands
        load_app(environment)  # raises before the announcement
        _announce(environment, host, port)
        serve_app(environment, host, port, workers=workers)
    else:
        entry = installed(load(environment))
        server = importlib.import_module(entry.server)
        _announce(environment, host, port)
        server.main([*context.args, "--host", host, "--port", str(port), "--workers", str(workers)])


def _announce(environment: str, host: str, port: int) -> None:
    where = host if host.startswith(UNIX) else f"http://{host}:{port}"
    typer.echo(f"serving {environment} at {where} (documentation at /docs); stop it with Ctrl-C", err=True)


def installed(entry: CatalogEntry) -> CatalogEntry:
    """Return `entry`. Raises RuntimeError, with the command that installs its extra, where a module is missing."""
    if not entry.is_installed:
        raise RuntimeError(
            f"environment {entry.name!r} needs {', '.join(entry.requires)}: pip install 'openenv-rl[{entry.extra}]'"
        )
    return entry


@contextmanager
def server_for(entry: CatalogEntry, url: str | None) -> Iterator[str]:
    """Yield `url`, or the URL of a server that runs inside the `with` statement."""
    if url is not None:
        yield url
        return
    with LocalServer(installed(entry).server) as server:
        yield server.base_url
