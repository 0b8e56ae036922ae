"""Replays recorded sessions, and reads them as episodes: recordings have hashes of the observations."""

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from openenv.auto.environment import ServedEnvironment
from openenv.core.client_types import StepResult
from openenv.core.env_server.sessions.recording import FORMAT, observation_hash
from openenv.core.errors import EnvironmentFault, RequestRefused
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import rpc_result
from openenv.core.wire.client_codec import Request
from openenv.evaluation.episode_files.recorder import EpisodeRecorder
from openenv.evaluation.episode_files.records import EpisodeSource, RecordedEpisode
from openenv.evaluation.intervals import EpisodeResult


class NotAsRecorded(ValueError):
    """A request of a recording has another result now. The message has the line and the difference."""


def is_session_recording(first_line: str) -> bool:
    """Whether this is the first line of a session's recording."""
    try:
        return bool(json.loads(first_line).get("format") == FORMAT)
    except (ValueError, AttributeError):
        return False


def read_recording(recording: Path) -> list[dict[str, Any]]:
    """The lines of a recording after its first. Raises ValueError for another file."""
    first, *lines = recording.read_text(encoding="utf-8").splitlines() or [""]
    if not is_session_recording(first):
        raise ValueError(f"{recording} is not a recording of format {FORMAT}: its first line is {first[:200]!r}")
    return [json.loads(line) for line in lines]


class ReplayClient(GenericEnvClient):
    """A client of any environment and its tools."""

    def request_tools(self, data: dict[str, Any]) -> Any:
        """List or call tools as recorded: data has `method`, and for a call `name` and `arguments`."""
        params = {key: value for key, value in data.items() if key != "method"}
        call = {"jsonrpc": "2.0", "method": data["method"], "params": params, "id": 1}
        return self._session.request(Request("mcp", call), rpc_result)


class Replay:
    """Replays recorded requests in one session."""

    def __init__(self, client: ReplayClient) -> None:
        self._client = client
        self._tokens: dict[str, str] = {}
        """The tokens of this replay's snapshots by those of the recording."""
        self.newest: StepResult[dict[str, Any]] | None = None
        """The result of the last request; None where it was no reset or step, or failed."""

    def play(self, line: dict[str, Any]) -> dict[str, Any]:
        """Send a recorded request and return its result in the form of the recording. `newest` is that result itself.

        Raises ValueError for a recording that continues from the state of another session.
        """
        verb, data = line["verb"], line["data"]
        self.newest = None
        if verb in ("save", "restore", "fork", "branch"):
            self._restore_or_save(verb, data)
            return {}
        try:
            if verb == "mcp":
                return {"observation_sha256": observation_hash(self._client.request_tools(data))}
            result = self.newest = self._client.reset(**data) if verb == "reset" else self._client.step(data)
        except EnvironmentFault as error:
            return {"validity": error.validity, "message": error.message}  # the failure of a tool has no code
        except RequestRefused as error:
            return {"validity": error.validity, "code": error.code, "message": error.message}
        return _as_recorded(result)

    def check(self, number: int, line: dict[str, Any]) -> None:
        """Play a line. Raises NotAsRecorded for another result than the recorded one. number: of the line, from 1."""
        difference = next(differences(line, self.play(line)), None)
        if difference:
            raise NotAsRecorded(f"line {number}, {line['verb']} {json.dumps(line['data'])}: {difference}")

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


def episodes_of_recording(recording: Path, served: ServedEnvironment, environment: str) -> list[RecordedEpisode]:
    """The episodes of a session's recording, each from a reset to the next one. They are replayed in `served`.

    An action that the environment refused leaves no turn. Raises NotAsRecorded where the replay differs, and ValueError
    for a recording that goes back to a snapshot, which is no row of turns.
    """
    lines = read_recording(recording)
    action, observation, _ = served.client_class._message_classes
    player = _RecordingPlayer(served, recording.stem)
    with ReplayClient(served.base_url, headers=dict(served.headers)) as client:
        replay = Replay(client)
        for number, line in enumerate(lines, start=2):
            if line["verb"] in ("restore", "branch"):
                raise ValueError(
                    f"{recording}, line {number}: the session went back to a snapshot, which is no episode"
                )
            replay.check(number, line)
            if line["verb"] == "reset":
                player.begin(_source(line["data"], environment, action, observation), line["data"].get("seed"))
            if replay.newest is not None:
                player.add(line, replay.newest)
    return player.ended()


def _source(reset: Mapping[str, Any], environment: str, action: Any, observation: Any) -> EpisodeSource:
    keywords = {key: value for key, value in reset.items() if key not in ("seed", "episode_id")}
    return EpisodeSource(
        environment=environment,
        policy="session",
        reset=keywords,
        action_schema=action.model_json_schema(),
        observation_schema=observation.model_json_schema(),
    )


class _RecordingPlayer:
    """Passes the lines of a recording to the recorder of evaluations."""

    def __init__(self, served: ServedEnvironment, name: str) -> None:
        self._served, self._name = served, name
        self._client = served.client()  # connects nowhere: it only reads results
        self._recorder: EpisodeRecorder | None = None
        self._episodes: list[RecordedEpisode] = []
        self._seed = 0
        self._total = 0.0
        self._num_steps = 0

    def begin(self, source: EpisodeSource, seed: int | None) -> None:
        """A reset begins an episode, which ends the one before."""
        self._end()
        self._recorder = EpisodeRecorder(source, self._served.text)
        self._seed, self._total, self._num_steps = seed or 0, 0.0, 0

    def add(self, line: Mapping[str, Any], result: StepResult[dict[str, Any]]) -> None:
        """The result of a reset or a step."""
        if self._recorder is None:
            raise ValueError(f"{self._name}: a step comes before the first reset")
        payload = {"observation": result.observation, "reward": result.reward, "done": result.done}
        typed = self._client._parse_result(payload)
        typed.validity = result.validity
        if line["verb"] == "step":
            action = self._client._message_classes[0].model_validate(line["data"])
            self._recorder.on_replies(0, (), action)
            self._num_steps += 1
        self._total += result.reward or 0.0
        self._recorder.on_result(0, typed)

    def ended(self) -> list[RecordedEpisode]:
        """All episodes, the last one included."""
        self._end()
        return self._episodes

    def _end(self) -> None:
        if self._recorder is None:
            return
        outcome: Any = self._served.text.outcome(self._total)
        result = EpisodeResult(seed=self._seed, total_reward=self._total, num_steps=self._num_steps, outcome=outcome)
        self._recorder.on_end(0, result)
        (episode,) = self._recorder.episodes
        number = len(self._episodes)
        self._episodes.append(episode.model_copy(update={"episode_id": f"{self._name}-{number}"}))
        self._recorder = None
