"""The file of collected episodes: one JSON object a line, and a file about the whole beside it."""

import json
import os
from dataclasses import dataclass, field, fields, is_dataclass
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import BaseModel

from openenv.agents.rollout import HarnessRolloutResult, env_reward_of, trace_of
from openenv.agents.sessions import VerifyResult
from openenv.formats.json_text import json_text

RESULTS_FILENAME = "results.jsonl"
METADATA_FILENAME = "metadata.json"


@dataclass
class EpisodeRecord:
    """One line of the data set."""

    episode_id: str
    messages: list[dict[str, Any]]
    reward: float
    done: bool
    tool_trace: list[dict[str, Any]]
    metrics: dict[str, Any]
    verify_metrics: dict[str, Any]
    artifacts: dict[str, Any]
    task: Any = None
    extra: dict[str, Any] = field(default_factory=dict)

    @classmethod
    def from_rollout(
        cls,
        episode_id: str,
        rollout: HarnessRolloutResult,
        verify: VerifyResult,
        task: Any = None,
        extra: dict[str, Any] | None = None,
    ) -> "EpisodeRecord":
        """The record of an episode and its verdict.

        Raises ValueError if neither a tool nor the verdict has a reward, or if theirs differ.
        """
        return cls(
            episode_id=episode_id,
            messages=[dict(message) for message in rollout.messages],
            reward=env_reward_of(rollout, verify),
            done=bool(rollout.done or verify.done),
            tool_trace=trace_of(rollout),
            metrics=dict(rollout.metrics),
            verify_metrics=dict(verify.metrics),
            artifacts=dict(verify.artifacts),
            task=task,
            extra=dict(extra or {}),
        )

    def to_dict(self) -> dict[str, Any]:
        """The record as JSON values. A dataclass becomes its fields, and another object that JSON lacks its text."""
        values: dict[str, Any] = json.loads(json_text(vars(self), default=_fields_or_text))
        return values


class RolloutSerializer:
    """Writes episodes to a folder, one line each. The folder is made at the first of them."""

    def __init__(self, output_dir: Path | str) -> None:
        self._folder = Path(output_dir)

    @property
    def output_dir(self) -> Path:
        """The folder."""
        return self._folder

    @property
    def results_path(self) -> Path:
        """The file of the episodes."""
        return self._folder / RESULTS_FILENAME

    @property
    def metadata_path(self) -> Path:
        """The file about the whole."""
        return self._folder / METADATA_FILENAME

    def write_episode(self, record: EpisodeRecord) -> None:
        """Append an episode, on a line of its own.

        Raises ValueError if the file ends in half a line, which an interrupted program has left.
        """
        line = json_text(record.to_dict()).encode() + b"\n"
        self._folder.mkdir(parents=True, exist_ok=True)
        with self.results_path.open("a+b") as results:
            last = _line_without_end(results)
            if last.strip():
                self._episode_id(last, "the last line")
            results.write(b"\n" + line if last else line)

    def write_metadata(self, metadata: dict[str, Any]) -> None:
        """Write the file about the whole again."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self.metadata_path.write_text(json_text(metadata, indent=2, default=str) + "\n", encoding="utf-8")

    def collected_episode_ids(self) -> set[str]:
        """The episodes that are in the file. Raises ValueError for a line that is none."""
        if not self.results_path.is_file():
            return set()
        with self.results_path.open("rb") as results:
            return {
                self._episode_id(line, f"line {number}") for number, line in enumerate(results, start=1) if line.strip()
            }

    def _episode_id(self, line: bytes, place: str) -> str:
        try:
            episode = json.loads(line)
        except ValueError as error:
            reason = str(error)
        else:
            if isinstance(episode, dict) and isinstance(episode.get("episode_id"), str):
                return str(episode["episode_id"])
            reason = "it has no text under 'episode_id'"
        raise ValueError(f"{self.results_path}, {place} is no episode ({reason}): remove it, or take another folder")


def _fields_or_text(value: Any) -> Any:
    """A message is text here: files of 0.10.0 have it so, and a column of a data set has one type."""
    if is_dataclass(value) and not isinstance(value, type | BaseModel):
        return {item.name: getattr(value, item.name) for item in fields(value)}
    return str(value)


def _line_without_end(results: BinaryIO) -> bytes:
    """The last line of a file if no line break ends it; else nothing."""
    size, length = results.seek(0, os.SEEK_END), 1
    while True:
        results.seek(max(size - length, 0))
        tail = results.read()
        if b"\n" in tail or length >= size:
            return tail.rpartition(b"\n")[2]
        length *= 1024
