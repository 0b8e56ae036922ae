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
from openenv.core.errors import EnvironmentFault, RequestRefused
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import rpc_result
from openenv.core.requests import Request
from openenv.envs.catalog import load

EXAMPLE = "Example: `openenv replay recordings/1f3a.jsonl --env openspiel`"


def replay(
    recording: Path = typer.Argument(help="A session's file, from ServerConfig(record_dir=...).", exists=True),
    env: str = typer.Option("openspiel", help="A name of `openenv envs`, served for the replay."),
    url: str = typer.Option(None, help="A running server (default: one is started for the replay)."),
) -> None:
    """Play a recorded session again. Exit code 1 and the first difference when it does not go the same way."""
    lines = _read(recording)
    with server_for(load(env), url) as base_url, _ReplayClient(base_url) as client:
        progress = track(lines, description="replay", console=Console(stderr=True), transient=True)
        replayed = Replay(client)
        for number, line in enumerate(progress, start=2):
            difference = next(differences(line, replayed.play(line)), None)
            if difference:
                typer.echo(f"line {number}, {line['verb']} {json.dumps(line['data'])}: {difference}")
                raise typer.Exit(1)
    typer.echo(f"{recording}: {len(lines)} requests, all as recorded")


def _read(recording: Path) -> list[dict[str, Any]]:
    head, *lines = [json.loads(line) for line in recording.read_text(encoding="utf-8").splitlines()]
    if head.get("format") != FORMAT:
        raise ValueError(f"{recording} is no recording of format {FORMAT}: its first line is {head}")
    return lines


class _ReplayClient(GenericEnvClient):
    """A client of any environment, its tools included."""

    def ask_tools(self, data: dict[str, Any]) -> Any:
        """What listing or calling tools returns, as it was recorded: `method`, and for a call `name`, `arguments`."""
        params = {key: value for key, value in data.items() if key != "method"}
        call = {"jsonrpc": "2.0", "method": data["method"], "params": params, "id": 1}
        return self._verb(Request("mcp", call), rpc_result)


class Replay:
    """Plays recorded requests in one session."""

    def __init__(self, client: _ReplayClient) -> None:
        self._client = client
        self._tokens: dict[str, str] = {}
        """The snapshots of this replay, by the recording's tokens."""

    def play(self, line: dict[str, Any]) -> dict[str, Any]:
        """What a recorded request gives now, in the recording's own words.

        Raises ValueError for a recording that begins, or goes on, where another session left off.
        """
        verb, data = line["verb"], line["data"]
        if verb in ("save", "restore", "fork", "branch"):
            self._move(verb, data)
            return {}
        try:
            if verb == "mcp":
                return {"observation_sha256": observation_hash(self._client.ask_tools(data))}
            result = self._client.reset(**data) if verb == "reset" else self._client.step(data)
        except EnvironmentFault as error:
            return {"validity": error.validity, "message": error.message}  # a tool's failure comes without its code
        except RequestRefused as error:
            return {"validity": error.validity, "code": error.code, "message": error.message}
        return _as_recorded(result)

    def _move(self, verb: str, data: dict[str, Any]) -> None:
        if verb == "branch":
            raise ValueError(f"this session was forked off session {data['from']}: replay that one's recording")
        if verb == "save":
            self._tokens[data["token"]] = self._client.save()
        elif verb == "restore":
            token = self._tokens.get(data["token"])
            if token is None:
                raise ValueError("this session was restored to a snapshot of another: replay that one")
            self._client.restore(token)


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
