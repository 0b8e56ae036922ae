"""`openenv replay`: replay a recorded session, and report the first difference or step through it on a page."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import track

from openenv.auto.environment import NamedEnvironment, token_headers
from openenv.auto.resolver import FORMS
from openenv.cli.option_groups import with_option_groups
from openenv.cli.pages.options import PageOptions
from openenv.evaluation.replay import Replay, ReplayClient, ReplayedRequest, read_recording

EXAMPLE = "Example: `openenv replay recordings/1f3a.jsonl --web`"


@with_option_groups
def replay(
    recording: Path = typer.Argument(
        help="Replay this recording, a file of a server with --record-dir.", exists=True, dir_okay=False
    ),
    env: str = typer.Option(
        None, help=f"Replay on a server of this environment: {FORMS} (default: the one that the recording names)."
    ),
    web: bool = typer.Option(
        False, "--web", help="Serve a page that steps through the replay, until interrupted (default: report it)."
    ),
    page: PageOptions = PageOptions(),
) -> None:
    """Replay a recorded session on a server with the recorded options. The command prints the first difference and
    exits with code 1, or reports that all requests are as recorded. With --web it serves a page with each observation
    and every difference."""
    recorded = read_recording(recording)
    lines, named = recorded.requests, recorded.named(env)
    if web:
        _serve(recording, lines, named, page)
        return
    with named.running() as base_url, _replayed(base_url, lines) as requests:
        for number, request in enumerate(requests, start=2):
            if request.differences:
                typer.echo(f"line {number}, {request}: {request.differences[0]}")
                raise typer.Exit(1)
    typer.echo(f"{recording}: {len(lines)} requests, all as recorded")


@contextmanager
def _replayed(base_url: str, lines: list[dict[str, Any]]) -> Iterator[Iterator[ReplayedRequest]]:
    """The requests, each replayed when it is taken, with a bar of the progress."""
    with ReplayClient(base_url, headers=token_headers()) as client:
        yield map(
            Replay(client).play, track(lines, "replay", console=Console(stderr=True, emoji=False), transient=True)
        )


def _serve(recording: Path, lines: list[dict[str, Any]], named: NamedEnvironment, page: PageOptions) -> None:
    """Replay all requests, stop the environment's server, and serve the page."""
    from openenv.pages.replay import replay_app
    from openenv.pages.server import PageServer, access_config
    from openenv.web.views import ObservationView

    config = access_config(page.host, os.environ.get("OPENENV_TOKEN"))
    with named.served() as served, _replayed(served.base_url, lines) as requests:
        app = replay_app(recording.name, list(requests), ObservationView(served.observation_class), config)
    with PageServer(app, page.host, page.port) as server:
        typer.echo(f"{recording} at {server.url}; stop it with Ctrl-C", err=True)
        server.wait()
