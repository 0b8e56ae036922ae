"""The files of `openenv eval --save`: written while episodes end, and read again by `--resume`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from openenv.auto.environment import ServedEnvironment
from openenv.evaluation.episode_files.recorder import EpisodeRecorder, result_of
from openenv.evaluation.episode_files.records import EpisodeFile, EpisodeSource, RecordedEpisode, read_episodes
from openenv.evaluation.intervals import EpisodeResult
from openenv.evaluation.policy_player import PlaysEpisodes
from openenv.policies import LanguageModelPolicy


class SavedEpisodes:
    """A file of episodes for each policy, in one folder."""

    def __init__(
        self, folder: Path, environment: str, served: ServedEnvironment, reset: dict[str, Any], *, resumes: bool
    ) -> None:
        """resumes: whether episodes that the folder has are kept."""
        self.paths: list[Path] = []
        """The files that were written."""
        self._folder = folder
        self._served = served
        self._resumes = resumes
        action, observation, _ = served.client_class._message_classes
        self._source = EpisodeSource(
            environment=environment, policy="", reset=reset, success_return=served.text.success_return,
            action_schema=action.model_json_schema(), observation_schema=observation.model_json_schema(),
        )  # fmt: skip
        self._kept: dict[int, list[RecordedEpisode]] = {}
        """By the policy's place."""

    def known(self, place: int, policy: Any, seeds: range) -> Mapping[int, EpisodeResult]:
        """The results of the policy's episodes that need no further play, by number. Invalid ones do.

        A policy that learns plays all of them again, unless none is missing. Raises ValueError for a file of another
        evaluation.
        """
        path = self._path(place, policy)
        if not self._resumes or not path.exists():
            return {}
        kept = [episode for episode in read_episodes(path) if episode.outcome != "invalid"]
        if kept:
            _check_source(path, kept[0].source, self._source_of(policy))
        results = {seeds.index(one.seed): result_of(one) for one in kept if one.seed is not None and one.seed in seeds}
        if getattr(policy, "learns", False) and len(results) < len(seeds):
            return {}
        self._kept[place] = kept
        return results

    def recorder(self, place: int, policy: Any) -> EpisodeRecorder:
        """Records the further episodes of a policy. Each is in the file when it has ended."""
        path = self._path(place, policy)
        self.paths.append(path)
        source = self._source_of(policy)
        return _SavingRecorder(EpisodeFile(path, source, self._kept.get(place, ())), source, self._served)

    def _source_of(self, policy: Any) -> EpisodeSource:
        model = policy.name if isinstance(policy, LanguageModelPolicy | PlaysEpisodes) else None
        return self._source.model_copy(update={"policy": policy.name, "model": model})

    def _path(self, place: int, policy: Any) -> Path:
        name = "".join(letter if letter.isalnum() or letter in "-_." else "_" for letter in policy.name)
        return self._folder / f"{place + 1}-{name}.jsonl"


class _SavingRecorder(EpisodeRecorder):
    def __init__(self, file: EpisodeFile, source: EpisodeSource, served: ServedEnvironment) -> None:
        super().__init__(source, served.text)
        self._file = file

    def on_end(self, episode: int, result: EpisodeResult) -> None:
        super().on_end(episode, result)
        self._file.append(self.episodes.pop())


def _check_source(path: Path, saved: EpisodeSource, wanted: EpisodeSource) -> None:
    """Raise ValueError with the first setting that differs."""
    for name, now in wanted.model_dump(mode="json").items():
        before = saved.model_dump(mode="json")[name]
        if before != now:
            raise ValueError(
                f"--resume: the episodes of {path} have {name}={before!r:.200}, and this evaluation has {now!r:.200}. "
                "Write the same command as before, or give --save another folder."
            )
