"""`openenv replay`: play a recorded session again and say where it differs, if anywhere."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import track

from openenv.cli.evaluate import server_for
from openenv.core.client_types import StepResult
from openenv.core.env_server.recording import FORMAT, observation_hash
from openenv.core.errors import RequestRefused
from openenv.core.generic_client import GenericEnvClient
from openenv.envs.catalog import load

EXAMPLE = "Example: `openenv replay recordings/1f3a.jsonl --env openspiel`"


def replay(
    recording: Path = typer.Argument(help="A session's file, from ServerConfig(record_dir=...).", exists=True),
    env: str = typer.Option("openspiel", help="A name of `openenv envs`, served for the replay."),
    url: str = typer.Option(None, help="A running server (default: one is started for the replay)."),
) -> None:
    """Play a recorded session again. Exit code 1 and the first difference when it does not go the same way."""
    lines = _read(recording)
    with server_for(load(env), url) as base_url, GenericEnvClient(base_url) as client:
        progress = track(lines, description="replay", console=Console(stderr=True), transient=True)
        for number, line in enumerate(progress, start=2):
            difference = next(differences(line, play(client, line)), None)
            if difference:
                typer.echo(f"line {number}, {line['verb']} {json.dumps(line['data'])}: {difference}")
                raise typer.Exit(1)
    typer.echo(f"{recording}: {len(lines)} requests, all as recorded")


def _read(recording: Path) -> list[dict[str, Any]]:
    head, *lines = [json.loads(line) for line in recording.read_text(encoding="utf-8").splitlines()]
    if head.get("format") != FORMAT:
        raise ValueError(f"{recording} is no recording of format {FORMAT}: its first line is {head}")
    return lines


def play(client: GenericEnvClient, line: dict[str, Any]) -> dict[str, Any]:
    """What a recorded request gives now, in the recording's own words."""
    try:
        result = client.reset(**line["data"]) if line["verb"] == "reset" else client.step(line["data"])
    except RequestRefused as error:
        return {"validity": error.validity, "code": error.code, "message": error.message}
    return _as_recorded(result)


def _as_recorded(result: StepResult[dict[str, Any]]) -> dict[str, Any]:
    return {
        "observation_sha256": observation_hash(result.observation),
        "reward": result.reward,
        "done": result.done,
        "validity": result.validity,
    }


def differences(recorded: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """Each thing that is not as it was recorded."""
    for key, value in now.items():
        if recorded.get(key) != value:
            yield f"{key} was {recorded.get(key)!r}, now it is {value!r}"
