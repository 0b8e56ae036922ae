"""Rows for TRL: prompt and completion for its SFTTrainer; prompt, chosen and rejected for its DPOTrainer.

Every row is one decision. Its prompt is what the model was shown, the whole conversation included; its completion is
the reply alone, so that what the environment said is never trained on.
"""

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from statistics import fmean
from typing import Any

from openenv.evaluation.episode_files.records import Message, RecordedEpisode
from openenv.formats.json_text import json_text
from openenv.integrations.data.huggingface import rows_dataset, save

Row = dict[str, Any]


def write_sft(episodes: Sequence[RecordedEpisode], target: Path) -> str:
    """Write the rows of `sft_rows` as a folder of `datasets`, or as a .parquet or .jsonl file."""
    return _write(list(sft_rows(episodes)), target, {"total_reward": "float64"})


def write_dpo(episodes: Sequence[RecordedEpisode], target: Path) -> str:
    """Write the rows of `dpo_rows`, likewise."""
    rows = list(dpo_rows(episodes))
    if not rows:
        raise ValueError(
            "no group has two replies to one prompt with different returns: play each seed several times (several "
            "--policy of `openenv eval`, or a temperature above 0), and export the files together."
        )
    return _write(rows, target, {"score_chosen": "float64", "score_rejected": "float64"})


def sft_rows(episodes: Sequence[RecordedEpisode]) -> Iterator[Row]:
    """`prompt` and `completion` of every turn whose reply names an action, with the episode's id and return.

    Messages are lists of messages, texts are texts. `tools` has the functions that the model might have called.
    Invalid and unparseable episodes give no rows. Raises ValueError for episodes without messages.
    """
    _require_messages(episodes)
    for episode in episodes:
        if episode.outcome in ("invalid", "unparseable"):
            continue
        for turn, prompt in episode.prompts():
            if turn.action is not None:
                yield {
                    "prompt": prompt,
                    "completion": _completion(turn.reply),
                    **_tools(episode),
                    "episode_id": episode.episode_id,
                    "total_reward": episode.total_reward,
                }


@dataclass(slots=True)
class _Choice:
    """One reply to a prompt, with the returns of the episodes that went on from it."""

    reply: Any
    returns: list[float] = field(default_factory=list)

    @property
    def score(self) -> float:
        return fmean(self.returns)


def dpo_rows(episodes: Sequence[RecordedEpisode]) -> Iterator[Row]:
    """`prompt`, `chosen` and `rejected` of each prompt of a group at which its episodes went apart.

    Chosen is the reply whose episodes had the highest mean return, rejected each reply with a lower one; their means
    are `score_chosen` and `score_rejected`. A reply that named no action is below all others: its score is the group's
    lowest return minus 1. Invalid episodes are left out. Raises ValueError for episodes without messages.
    """
    _require_messages(episodes)
    groups: defaultdict[str, list[RecordedEpisode]] = defaultdict(list)
    for episode in episodes:
        if episode.outcome != "invalid":
            groups[episode.group].append(episode)
    for name, group in groups.items():
        for prompt, choices, tools in _branches(group):
            best = max(choices, key=lambda choice: choice.score)
            for other in choices:
                if other.score < best.score:
                    yield {
                        "prompt": prompt,
                        "chosen": _completion(best.reply),
                        "rejected": _completion(other.reply),
                        **tools,
                        "group": name,
                        "score_chosen": best.score,
                        "score_rejected": other.score,
                    }


def _branches(group: Sequence[RecordedEpisode]) -> Iterator[tuple[Any, list[_Choice], Row]]:
    """Each prompt of a group with its different replies."""
    known = [(episode, value) for episode in group if (value := episode.total_reward) is not None]
    lowest = min((value for episode, value in known if episode.outcome != "unparseable"), default=0.0) - 1.0
    branches: dict[str, tuple[Any, dict[str, _Choice], Row]] = {}
    for episode, value in known:
        for turn, prompt in episode.prompts():
            _, choices, _ = branches.setdefault(_key(prompt), (prompt, {}, _tools(episode)))
            choice = choices.setdefault(_key(turn.reply), _Choice(turn.reply))
            is_lost = turn.action is None or episode.outcome == "unparseable"
            choice.returns.append(lowest if is_lost else value)
    for prompt, choices, tools in branches.values():
        if len(choices) > 1:
            yield prompt, list(choices.values()), tools


def _key(value: Any) -> str:
    """Equal for equal prompts; the ids of calls are random."""
    if isinstance(value, list):
        return json_text([_without_ids(message) for message in value], sort_keys=True)
    return json_text(_without_ids(value) if isinstance(value, dict) else value, sort_keys=True)


def _without_ids(message: Message) -> Message:
    calls = [{**call, "id": ""} for call in message.get("tool_calls", ())]
    plain = {key: value for key, value in message.items() if key not in ("tool_call_id", "tool_calls")}
    return {**plain, "tool_calls": calls} if calls else plain


def _completion(reply: Any) -> Any:
    return reply if isinstance(reply, str) else [reply]


def _tools(episode: RecordedEpisode) -> Row:
    return {"tools": episode.functions} if episode.functions else {}


def _require_messages(episodes: Sequence[RecordedEpisode]) -> None:
    if not any(True for episode in episodes for _ in episode.prompts()):
        raise ValueError(
            "the episodes have no messages: their environment has no text for the actions of this policy. Give "
            "`openenv eval` a text interface (--text), or a language model as policy."
        )


def _write(rows: list[Row], target: Path, numbers: dict[str, str]) -> str:
    columns: dict[str, str] = {}
    for name in dict.fromkeys(name for row in rows for name in row):
        values = [row.get(name) for row in rows]
        is_text = all(value is None or isinstance(value, str) for value in values)
        columns[name] = numbers.get(name) or ("string" if is_text else "json")
    assert all(math.isfinite(row[name]) for row in rows for name in numbers)
    return save(rows_dataset(rows, columns), target)
