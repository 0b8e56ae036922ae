"""`openenv replay`: replay a recorded session and report the first difference."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer
from rich.console import Console
from rich.progress import track

from openenv.auto.environment import FORMS, named_environment, token_headers
from openenv.core.client_types import StepResult
from openenv.core.env_server.sessions.recording import FORMAT, observation_hash
from openenv.core.errors import EnvironmentFault, RequestRefused
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import rpc_result
from openenv.core.wire.client_codec import Request

EXAMPLE = "Example: `openenv replay recordings/1f3a.jsonl --env openspiel`"


def replay(
    recording: Path = typer.Argument(help="Replay this recording, a file of a server with --record-dir.", exists=True),
    env: str = typer.Option("openspiel", help=f"Replay on a server of this environment: {FORMS} (default openspiel)."),
) -> None:
    """Replay a recorded session. The command prints the first difference and exits with code 1, or reports that all
    requests are as recorded."""
    lines = _read(recording)
    with named_environment(env).running() as base_url, _ReplayClient(base_url, headers=token_headers()) as client:
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
        raise ValueError(f"{recording} is not a recording of format {FORMAT}: its first line is {head}")
    return lines


class _ReplayClient(GenericEnvClient):
    """A client of any environment and its tools."""

    def request_tools(self, data: dict[str, Any]) -> Any:
        """List or call tools as recorded: data has `method`, and for a call `name` and `arguments`."""
        params = {key: value for key, value in data.items() if key != "method"}
        call = {"jsonrpc": "2.0", "method": data["method"], "params": params, "id": 1}
        return self._session.request(Request("mcp", call), rpc_result)


class Replay:
    """Replays recorded requests in one session."""

    def __init__(self, client: _ReplayClient) -> None:
        self._client = client
        self._tokens: dict[str, str] = {}
        """The tokens of this replay's snapshots by those of the recording."""

    def play(self, line: dict[str, Any]) -> dict[str, Any]:
        """Send a recorded request and return its result in the form of the recording.

        Raises ValueError for a recording that continues from the state of another session.
        """
        verb, data = line["verb"], line["data"]
        if verb in ("save", "restore", "fork", "branch"):
            self._restore_or_save(verb, data)
            return {}
        try:
            if verb == "mcp":
                return {"observation_sha256": observation_hash(self._client.request_tools(data))}
            result = self._client.reset(**data) if verb == "reset" else self._client.step(data)
        except EnvironmentFault as error:
            return {"validity": error.validity, "message": error.message}  # the failure of a tool has no code
        except RequestRefused as error:
            return {"validity": error.validity, "code": error.code, "message": error.message}
        return _as_recorded(result)

    def _restore_or_save(self, verb: str, data: dict[str, Any]) -> None:
        if verb == "branch":
            raise ValueError(f"this session was forked from session {data['from']}: replay the recording of that one")
        if verb == "save":
            self._tokens[data["token"]] = self._client.save()
        elif verb == "restore":
            token = self._tokens.get(data["token"])
            if token is None:
                raise ValueError(
                    "this session was restored to a snapshot of another session: replay the recording of that one"
                )
            self._client.restore(token)


def _as_recorded(result: StepResult[dict[str, Any]]) -> dict[str, Any]:
    return {
        "observation_sha256": observation_hash(result.observation),
        "reward": result.reward,
        "done": result.done,
        "validity": result.validity,
    }


def differences(recorded: dict[str, Any], now: dict[str, Any]) -> Iterator[str]:
    """Yield each value that differs from the recording."""
    for key, value in now.items():
        if recorded.get(key) != value:
            yield f"{key} was {recorded.get(key)!r}, now it is {value!r}"
