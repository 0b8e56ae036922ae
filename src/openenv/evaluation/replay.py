"""Replays a recorded session on a server, and compares each result with the recorded one."""

from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from openenv.auto.discovery import UnknownEnvironment, find_environment
from openenv.auto.environment import NamedEnvironment, named_environment
from openenv.core.client_types import StepResult
from openenv.core.env_server.sessions.recording import FORMAT, observation_hash
from openenv.core.errors import EnvironmentFault, RequestRefused
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import rpc_result
from openenv.core.wire.client_codec import Request
from openenv.formats.json_text import json_lines, json_text, object_of
from openenv.hosting.serving.cli_options import server_options

_NO_RESULT = frozenset({"save", "restore", "fork", "branch"})
"""What happened to a session without a result of the environment."""
_KEYS = {"save": "token", "restore": "token", "branch": "from", "mcp": "method"}
"""What the data of a verb have."""


def is_session_recording(first_line: str) -> bool:
    """Whether this is the first line of a session's recording."""
    return (object_of(first_line) or {}).get("format") == FORMAT


@dataclass(frozen=True, kw_only=True)
class SessionRecording:
    """A recorded session."""

    path: Path
    environment: str
    """The name of the environment, under which its server serves it."""
    options: tuple[str, ...]
    """Options of the environment's server, such as `--game chess`."""
    requests: list[dict[str, Any]]

    def named(self, env: str | None, *, text: str | None = None) -> NamedEnvironment:
        """The environment to replay it on, with the recorded options of its server.

        env: its name; None: the recorded one, of a bundled or installed environment: a recording starts nothing else.
        text: a class that replaces its text interface. Raises LookupError.
        """
        if env:
            named = named_environment(env, text=text)
            return replace(named, options=[*named.options, *self.options])
        try:
            info = find_environment(self.environment)
        except UnknownEnvironment as error:
            raise LookupError(
                f"{self.path} is of {self.environment!r}, which is no bundled or installed environment: name the one "
                "that replays it (--env)"
            ) from error
        return NamedEnvironment(name=self.environment, info=info, text=text, options=self.options)


def read_recording(path: Path) -> SessionRecording:
    """Read a file of `openenv serve --record-dir`. Raises ValueError for a file that is no recording."""
    first, *lines = json_lines(path) or [""]
    head = object_of(first) or {}
    options = head.get("options", [])
    if not (is_session_recording(first) and isinstance(head.get("environment"), str) and _is_texts(options)):
        raise ValueError(f"{path} is not a recording of format {FORMAT}: its first line is {first[:200]!r}")
    for option in options:
        if option.startswith("-") and any(known.startswith(option.partition("=")[0]) for known in server_options()):
            raise ValueError(f"{path}: {option} is an option of servers, and none of an environment: remove it")
    return SessionRecording(
        path=path,
        environment=head["environment"],
        options=tuple(options),
        requests=[_request(line, f"{path}, line {number}") for number, line in enumerate(lines, start=2)],
    )


def _is_texts(value: Any) -> bool:
    return isinstance(value, list) and all(isinstance(item, str) for item in value)


def _request(line: str, place: str) -> dict[str, Any]:
    """A line of a recording. Raises ValueError for one that is no request."""
    request = object_of(line) or {}
    verb, data = request.get("verb"), request.get("data")
    if not (isinstance(verb, str) and isinstance(data, dict)):
        raise ValueError(f"{place}: {line[:200]!r} is no request of a recording, which has `verb` and `data`")
    if verb in _KEYS and not isinstance(data.get(_KEYS[verb]), str):
        raise ValueError(f"{place}: the data of {verb} have `{_KEYS[verb]}`, these are {line[:200]!r}")
    return request


class ReplayClient(GenericEnvClient):
    """A client of any environment and its tools."""

    def request_tools(self, data: dict[str, Any]) -> Any:
        """List or call tools as recorded: data has `method`, and for a call `name` and `arguments`."""
        params = {key: value for key, value in data.items() if key != "method"}
        call = {"jsonrpc": "2.0", "method": data["method"], "params": params, "id": 1}
        return self._session.request(Request("mcp", call), rpc_result)


@dataclass(frozen=True, kw_only=True)
class ReplayedRequest:
    """A recorded request, and what came of it this time."""

    recorded: dict[str, Any]
    """The line of the recording: `verb`, `data`, and the outcome."""
    outcome: dict[str, Any]
    """The outcome of the replay in the form of the recording."""
    observation: Any = None
    """The observation of the replay, or the result of a tool; None where there is none."""

    def __str__(self) -> str:
        """The verb with its data."""
        return f"{self.recorded['verb']} {json_text(self.recorded['data'])}"

    @property
    def differences(self) -> list[str]:
        """Each value that differs from the recording, in words."""
        pairs = ((key, self.recorded.get(key), value) for key, value in self.outcome.items())
        return [f"{key} was {before!r}, now it is {now!r}" for key, before, now in pairs if before != now]


class Replay:
    """Replays recorded requests in one session."""

    def __init__(self, client: ReplayClient) -> None:
        self._client = client
        self._tokens: dict[str, str] = {}
        """The tokens of this replay's snapshots by those of the recording."""

    def play(self, line: dict[str, Any]) -> ReplayedRequest:
        """Send a recorded request.

        Raises ValueError for a recording that continues from the state of another session.
        """
        verb, data = line["verb"], line["data"]
        if verb in _NO_RESULT:
            self._restore_or_save(verb, data)
            return ReplayedRequest(recorded=line, outcome={})
        try:
            if verb == "mcp":
                result = self._client.request_tools(data)
                outcome = {"observation_sha256": observation_hash(result)}
                return ReplayedRequest(recorded=line, outcome=outcome, observation=result)
            step = self._client.reset(**data) if verb == "reset" else self._client.step(data)
        except EnvironmentFault as error:  # the failure of a tool has no code
            outcome = {"message": error.message}
        except RequestRefused as error:
            outcome = {"code": error.code, "message": error.message}
        else:
            return ReplayedRequest(recorded=line, outcome=_as_recorded(step), observation=step.observation)
        return ReplayedRequest(recorded=line, outcome=outcome)

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
