"""`openenv replay`: replay a recorded session and report the first difference."""

from pathlib import Path

import typer
from rich.console import Console
from rich.progress import track

from openenv.auto.environment import FORMS, named_environment, token_headers
from openenv.evaluation.episode_files.session_replay import NotAsRecorded, Replay, ReplayClient, read_recording

EXAMPLE = "Example: `openenv replay recordings/1f3a.jsonl --env openspiel`"


def replay(
    recording: Path = typer.Argument(help="Replay this recording, a file of a server with --record-dir.", exists=True),
    env: str = typer.Option("openspiel", help=f"Replay on a server of this environment: {FORMS} (default openspiel)."),
) -> None:
    """Replay a recorded session. The command prints the first difference and exits with code 1, or reports that all
    requests are as recorded."""
    lines = read_recording(recording)
    with named_environment(env).running() as base_url, ReplayClient(base_url, headers=token_headers()) as client:
        progress = track(lines, description="replay", console=Console(stderr=True), transient=True)
        replayed = Replay(client)
        for number, line in enumerate(progress, start=2):
            try:
                replayed.check(number, line)
            except NotAsRecorded as difference:
                typer.echo(str(difference))
                raise typer.Exit(1) from None
    typer.echo(f"{recording}: {len(lines)} requests, all as recorded")
