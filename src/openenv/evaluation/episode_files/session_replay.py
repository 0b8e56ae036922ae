"""Reads the recording of a session as episodes. It has hashes of the observations, so it is replayed."""

from collections.abc import Mapping
from typing import Any

from openenv.auto.environment import ServedEnvironment
from openenv.core.outcomes import outcome_of
from openenv.evaluation.episode_files.recorder import EpisodeRecorder
from openenv.evaluation.episode_files.records import EpisodeSource, RecordedEpisode
from openenv.evaluation.intervals import EpisodeResult
from openenv.evaluation.replay import Replay, ReplayClient, ReplayedRequest, SessionRecording


class NotAsRecorded(ValueError):
    """A request of a recording has another result now. The message has the line and the difference."""


def episodes_of_recording(
    recording: SessionRecording, served: ServedEnvironment, environment: str
) -> list[RecordedEpisode]:
    """The episodes of a session's recording, each from a reset to the next one. They are replayed in `served`.

    An action that the environment refused leaves no turn. Raises NotAsRecorded where the replay differs, and ValueError
    for a recording that goes back to a snapshot, which is no row of turns.
    """
    path = recording.path
    action, observation, _ = served.client_class._message_classes
    player = _RecordingPlayer(served, path.stem)
    with ReplayClient(served.base_url, headers=dict(served.headers)) as client:
        replay = Replay(client)
        for number, line in enumerate(recording.requests, start=2):
            if line["verb"] in ("restore", "branch"):
                raise ValueError(f"{path}, line {number}: the session went back to a snapshot, which is no episode")
            request = replay.play(line)
            if request.differences:
                raise NotAsRecorded(f"{path}, line {number}, {request}: {request.differences[0]}")
            if line["verb"] == "reset":
                player.begin(_source(line["data"], environment, action, observation), line["data"].get("seed"))
            if line["verb"] != "mcp" and request.observation is not None:
                player.add(request)
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
        self._total: float | None = None
        self._success_return: float | None = None
        self._num_steps = 0

    def begin(self, source: EpisodeSource, seed: int | None) -> None:
        """A reset begins an episode, which ends the one before."""
        self._end()
        self._recorder = EpisodeRecorder(source, self._served.text)
        self._seed, self._total, self._num_steps = seed or 0, None, 0

    def add(self, request: ReplayedRequest) -> None:
        """A reset or a step that had a result."""
        if self._recorder is None:
            raise ValueError(f"{self._name}: a step comes before the first reset")
        outcome = request.outcome
        payload = {"observation": request.observation, "reward": outcome["reward"], "done": outcome["done"]}
        typed = self._client._parse_result(payload)
        typed.validity = outcome["validity"]
        if request.recorded["verb"] == "step":
            action = self._client._message_classes[0].model_validate(request.recorded["data"])
            self._recorder.on_replies(0, (), action)
            self._num_steps += 1
        else:
            self._success_return = self._served.text.success_of(typed.observation)
        if outcome["reward"] is not None:
            self._total = (self._total or 0.0) + outcome["reward"]
        self._recorder.on_result(0, typed)

    def ended(self) -> list[RecordedEpisode]:
        """All episodes, the last one included."""
        self._end()
        return self._episodes

    def _end(self) -> None:
        if self._recorder is None:
            return
        outcome = outcome_of(self._total, self._success_return)
        result = EpisodeResult(seed=self._seed, total_reward=self._total, num_steps=self._num_steps, outcome=outcome)
        self._recorder.on_end(0, result)
        (episode,) = self._recorder.episodes
        number = len(self._episodes)
        self._episodes.append(episode.model_copy(update={"episode_id": f"{self._name}-{number}"}))
        self._recorder = None
