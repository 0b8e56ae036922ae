"""The format of recorded episodes: JSON lines, of which the first names the source and each other one is an episode.

`openenv eval --save` writes such files. Session recordings and sample transcripts of training are read as the same
classes, so that every export takes one form.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, Literal, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from openenv.core.outcomes import EpisodeOutcome
from openenv.formats.json_text import json_lines, json_text, object_of

FORMAT: Literal["openenv.episodes.1"] = "openenv.episodes.1"

RecordT = TypeVar("RecordT", bound="_Record")

Message = dict[str, Any]
"""A message of a conversation, as the OpenAI API has it: `role`, `content`, and `tool_calls` or `tool_call_id`."""


class _Record(BaseModel):
    """Base of the records: unknown fields are refused."""

    model_config = ConfigDict(extra="forbid")


class EpisodeSource(_Record):
    """Where episodes come from: the same for all of a file."""

    format: Literal["openenv.episodes.1"] = FORMAT
    environment: str
    """The name by which the environment was started."""
    policy: str
    model: str | None = None
    """The language model, if the policy is one."""
    reset: dict[str, Any] = Field(default_factory=dict)
    """Keywords of every reset."""
    success_return: float | None = None
    """The return from which an episode counts as a success, whatever the environment declares."""
    action_schema: dict[str, Any] = Field(default_factory=dict)
    observation_schema: dict[str, Any] = Field(default_factory=dict)
    """JSON Schemas of the environment's messages; empty where they are not known."""


class RecordedTurn(_Record):
    """One decision: what the policy saw, what it replied, and what the environment returned."""

    observation: dict[str, Any] | None = None
    """The observation before the action, as JSON; None where it was not recorded."""
    shown: list[Message] | str | None = None
    """The messages that the policy was shown, without those of earlier turns if `continues`; a text is a prompt as the
    model's tokens have it. None: it was shown none."""
    continues: bool = False
    """Whether the messages of the earlier turns come before `shown`."""
    reply: Message | str | None = None
    """The assistant's message, or a text after a prompt that is one."""
    action: dict[str, Any] | None = None
    """The action as JSON; None: the reply names none, and the environment was not stepped."""
    cut_off: bool = False
    """Whether the limit of tokens ended the reply."""
    reward: float | None = None
    """None: the environment gave none."""
    done: bool = False
    truncated: bool = False
    prompt_tokens: int = 0
    completion_tokens: int = 0
    """0: not counted."""


class RecordedEpisode(_Record):
    """One episode."""

    source: EpisodeSource = Field(exclude=True)
    episode_id: str
    group: str
    """Episodes of one group began from the same state."""
    seed: int | None = None
    outcome: EpisodeOutcome
    success_return: float | None = None
    """The return from which it is a success; None where nothing declares it."""
    reason: str | None = None
    total_reward: float | None
    """It has no meaning if the outcome is unparseable or invalid."""
    turns: list[RecordedTurn]
    final_observation: dict[str, Any] | None = None
    """The observation after the last action."""
    functions: list[dict[str, Any]] = Field(default_factory=list)
    """Definitions of the functions that the model might have called."""

    @property
    def steps(self) -> list[RecordedTurn]:
        """The turns whose action was taken."""
        return [turn for turn in self.turns if turn.action is not None]

    def prompts(self) -> Iterator[tuple[RecordedTurn, list[Message] | str]]:
        """Each turn with a prompt, and that prompt in full."""
        before: Any = []
        for turn in self.turns:
            if turn.shown is None or turn.reply is None:
                continue
            if isinstance(turn.shown, str):
                before = before if isinstance(before, str) else ""
            elif isinstance(before, str):
                before = []
            prompt: Any = before + turn.shown if turn.continues else turn.shown
            yield turn, prompt
            before = prompt + turn.reply if isinstance(turn.reply, str) else [*prompt, turn.reply]


def group_of(source: EpisodeSource, seed: int | None) -> str:
    """The name of the group of episodes that begin with this seed."""
    keywords = json_text(source.reset, sort_keys=True)
    return f"{source.environment} {keywords} {seed}"


def write_episodes(path: Path, source: EpisodeSource, episodes: Iterable[RecordedEpisode]) -> Path:
    """Write a file; its folder is made. Returns its path. A reader finds the old file or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    written = path.with_name(f"{path.name}.part")
    with written.open("w", encoding="utf-8") as file:
        for record in (source, *episodes):
            file.write(record.model_dump_json() + "\n")
    written.replace(path)
    return path


class EpisodeFile:
    """A file of episodes that grows: each is on the disk when `append` returns."""

    def __init__(self, path: Path, source: EpisodeSource, episodes: Iterable[RecordedEpisode] = ()) -> None:
        """Write the file with its first episodes."""
        self._path = write_episodes(path, source, episodes)

    def append(self, episode: RecordedEpisode) -> None:
        """Add an episode."""
        with self._path.open("a", encoding="utf-8") as file:
            file.write(episode.model_dump_json() + "\n")


def is_episode_file(first_line: str) -> bool:
    """Whether this is the first line of a file of episodes."""
    return (object_of(first_line) or {}).get("format") == FORMAT


def read_episodes(path: Path) -> list[RecordedEpisode]:
    """The episodes of a file. Raises ValueError that names the line for one that is none.

    A last line that was cut off, as when its writer was killed, is left out.
    """
    first, *lines = json_lines(path) or [""]
    if lines and object_of(lines[-1]) is None:
        lines.pop()
    source = _validated(EpisodeSource, object_of(first) or {}, f"{path}, line 1")
    return [
        _validated(RecordedEpisode, {"source": source, **(object_of(line) or {})}, f"{path}, line {number}")
        for number, line in enumerate(lines, start=2)
    ]


def _validated(record: type[RecordT], fields: Mapping[str, Any], place: str) -> RecordT:
    try:
        return record.model_validate(fields)
    except ValidationError as error:
        problem = error.errors()[0]
        field = ".".join(map(str, problem["loc"]))
        raise ValueError(f"{place}: {field}: {problem['msg']}. Is it a file of episodes?") from error
