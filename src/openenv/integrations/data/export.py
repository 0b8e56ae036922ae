"""Reads recorded episodes from any file that has them, and writes them in any of the forms."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path

from openenv.auto.environment import ServedEnvironment
from openenv.evaluation.episode_files.records import RecordedEpisode, is_episode_file, read_episodes
from openenv.evaluation.episode_files.session_replay import episodes_of_recording
from openenv.evaluation.replay import SessionRecording, is_session_recording, read_recording
from openenv.integrations.data import atif, huggingface, minari, training_rows
from openenv.rl.reports.transcripts import is_transcript_file, recorded_transcripts

Write = Callable[[Sequence[RecordedEpisode], Path], str]

FORMATS: Mapping[str, tuple[Write, str]] = {
    "datasets": (huggingface.write_dataset, "a folder of Hugging Face datasets, one row for each episode"),
    "parquet": (huggingface.write_parquet, "the same rows as a Parquet file"),
    "minari": (minari.write_dataset, "a Minari dataset, with Gymnasium spaces of observations and actions"),
    "atif": (atif.write_trajectories, "a folder with an Agent Trajectory Interchange Format file for each episode"),
    "sft": (training_rows.write_sft, "prompt and completion of each turn, as TRL's SFTTrainer reads them"),
    "dpo": (training_rows.write_dpo, "prompt, chosen and rejected reply, as TRL's DPOTrainer reads them"),
}
"""Writer and one-line description of each form. A writer returns what it wrote, in words."""


def export_episodes(episodes: Sequence[RecordedEpisode], form: str, target: Path, *, fields: Sequence[str] = ()) -> str:
    """Write episodes in a form of `FORMATS`. Returns what was written, in words.

    target: the folder or file, which must not exist. fields: of observations; only for minari. Raises ValueError for
    an unknown form, no episodes, a target that is there, or episodes that the form cannot express.
    """
    if form not in FORMATS:
        raise ValueError(f"form={form!r} is unknown. There are: {', '.join(FORMATS)}.")
    if not episodes:
        raise ValueError("there are no episodes to export: give files that have some.")
    if target.exists():
        raise ValueError(f"{target} is there already: remove it, or give another target.")
    if fields:
        if form != "minari":
            raise ValueError(f"fields={list(fields)}: only minari takes them, not {form}.")
        return minari.write_dataset(episodes, target, fields=fields)
    return FORMATS[form][0](episodes, target)


def load_episodes(
    paths: Iterable[Path], *, environment: str | None = None, text: str | None = None
) -> list[RecordedEpisode]:
    """The episodes of files: those of `openenv eval --save`, a run's `transcripts.jsonl`, and recordings of sessions.

    environment: the name of the one in which recordings of sessions are replayed; None: the one that each names. text:
    a class that replaces its text interface. Raises ValueError for another file, and LookupError for an environment
    that is not known.
    """
    found: list[RecordedEpisode] = []
    with _Servers(environment, text) as servers:
        for path in paths:
            with path.open(encoding="utf-8") as file:
                first = file.readline()
            if is_episode_file(first):
                found += read_episodes(path)
            elif is_transcript_file(first):
                found += recorded_transcripts(path)
            elif is_session_recording(first):
                recording = read_recording(path)
                found += episodes_of_recording(recording, *servers.for_recording(recording))
            else:
                raise ValueError(
                    f"{path} has no episodes. Give a file of `openenv eval --save` or `openenv serve --record-dir`, or "
                    "the transcripts.jsonl of a run."
                )
    return found


class _Servers(ExitStack):
    """A server for all recordings of an environment that had the same options, until the `with` statement ends."""

    def __init__(self, environment: str | None, text: str | None) -> None:
        super().__init__()
        self._environment, self._text = environment, text
        self._served: dict[tuple[str, tuple[str, ...]], ServedEnvironment] = {}

    def for_recording(self, recording: SessionRecording) -> tuple[ServedEnvironment, str]:
        """The environment on which to replay it, and its name."""
        named = recording.named(self._environment, text=self._text)
        key = named.name, recording.options
        if key not in self._served:
            self._served[key] = self.enter_context(named.served())
        return self._served[key], named.name
