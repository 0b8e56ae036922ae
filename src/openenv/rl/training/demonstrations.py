"""Demonstrations: the replies of a teacher, or of recorded episodes, and a model that learns to imitate them.

Only what was replied is predicted, with the token that ends it: what the environment said is not learned.
"""

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from transformers import PreTrainedModel

from openenv.evaluation.episode_files.records import RecordedEpisode
from openenv.policies.prompts import END_OF_THINKING
from openenv.rl.config import ConfigError, Precision, WarmStartConfig
from openenv.rl.models.chat import Chat
from openenv.rl.models.images import Images
from openenv.rl.models.lora import has_adapter
from openenv.rl.models.prompt_tokens import TokenIds
from openenv.rl.training.outcome_labels import outcome_labels
from openenv.rl.training.supervised import Example, SupervisedSettings, agreement, train_supervised
from openenv.rl.training.teacher_play import CollectedPlay
from openenv.rl.training.transcripts import Message, Transcript, chat_messages
from openenv.text.action_forms import call_text
from openenv.text.content import frozen

_LR, _LR_OF_ADAPTER = 3e-5, 2e-4
_PART_HELD_OUT, _MOST_HELD_OUT = 0.1, 200


@dataclass(frozen=True, slots=True, kw_only=True)
class Imitation:
    """What a model has learned from a teacher."""

    teacher: str
    num_episodes: int
    num_left_out: int
    num_decisions: int
    mean_return: float
    """Of the episodes that were learned from."""
    losses: list[float]
    """Of each batch, in nats per token of a reply."""
    held_out: int
    """Number of sequences that were not learned from: a tenth, at most 200."""
    loss_before: float
    loss_after: float
    """On those."""
    likeliest_before: float
    likeliest_after: float
    """The share of their tokens that are the model's likeliest ones. A teacher that draws at random limits it."""


def imitate(
    model: PreTrainedModel,
    taught: Sequence[tuple[Chat, CollectedPlay]],
    config: WarmStartConfig,
    *,
    teacher: str,
    precision: Precision,
    seed: int,
    max_length: int,
    tokens_per_forward: int,
    on_step: Callable[[int, float], None] = lambda done, loss: None,
    is_time_up: Callable[[], bool] = lambda: False,
) -> Imitation:
    """Train `model` on the replies of the teacher's episodes, some of which are held out to measure it.

    taught: the episodes of each environment, with its chat. max_length: most tokens of a sequence. Raises ConfigError
    if nothing is left to learn from, or no time.
    """
    played = CollectedPlay()
    for _, play in taught:
        played.add(play)
    _require_episodes(played, config, teacher)
    examples = [
        example
        for chat, play in taught
        for example in reply_examples(chat, play.transcripts, max_length=max_length, outcomes=config.outcomes)
    ]
    if not examples:
        raise ConfigError(
            f"max_length={max_length}: no reply of the teacher {teacher} ends within as many tokens. Raise "
            "max_req_tokens, in `openenv sft` --max-tokens."
        )
    learned, held_out = _divided(examples, seed)
    pad_id = taught[0][0].pad_id
    measured: Any = {"pad_id": pad_id, "precision": precision, "tokens_per_forward": tokens_per_forward}
    before = agreement(model, held_out, **measured)
    num_sequences = sum(example.count for example in examples)
    settings = SupervisedSettings(
        steps=config.steps,
        rows=max(1, round(config.batch_size * num_sequences / max(num_sequences, played.num_decisions))),
        lr=config.lr or (_LR_OF_ADAPTER if has_adapter(model) else _LR),
        warmup_steps=config.steps // 10,
        tokens_per_forward=tokens_per_forward,
        precision=precision,
        seed=seed,
    )
    losses = train_supervised(model, learned, settings, pad_id=pad_id, on_step=on_step, is_time_up=is_time_up)
    if not losses:
        raise ConfigError("max_minutes: its half was over before the first batch of the warm start. Raise it.")
    after = agreement(model, held_out, **measured)
    returns = played.returns
    return Imitation(
        teacher=teacher,
        num_episodes=played.num_episodes,
        num_left_out=played.num_left_out,
        num_decisions=played.num_decisions,
        mean_return=sum(value * count for value, count in returns.items()) / returns.total(),
        losses=losses,
        held_out=sum(one.count for one in held_out),
        loss_before=before[0],
        loss_after=after[0],
        likeliest_before=before[1],
        likeliest_after=after[1],
    )


def _require_episodes(played: CollectedPlay, config: WarmStartConfig, teacher: str) -> None:
    """Raise ConfigError, with the cause, if there is no episode to learn from."""
    if played.num_episodes:
        return
    if played.best_return == -math.inf:
        raise ConfigError(
            f"the teacher {teacher} has no episode to learn from: in {played.num_left_out} the environment failed, or "
            "a reply named no action. Choose another one (warm_start.policy, warm_start.episodes)."
        )
    raise ConfigError(
        f"min_return={config.min_return}: the teacher {teacher} has no episode to learn from: {played.num_left_out} "
        f"are left out, and the best return is {played.best_return:g}. Lower warm_start.min_return, in `openenv sft` "
        "--min-return."
    )


def _divided(examples: Sequence[Example], seed: int) -> tuple[list[Example], list[Example]]:
    """The examples that are learned from, and those that are held out, by how often each occurs.

    Each occurrence is held out with the same probability, so that both have the same distribution. A single one is
    both.
    """
    occurrences = [number for number, example in enumerate(examples) for _ in range(example.count)]
    if len(occurrences) == 1:
        return list(examples), list(examples)
    size = max(1, min(_MOST_HELD_OUT, round(_PART_HELD_OUT * len(occurrences))))
    held_out = Counter(random.Random(seed).sample(occurrences, size))
    learned = [_occurring(one, one.count - held_out[number]) for number, one in enumerate(examples)]
    return (
        [one for one in learned if one.count],
        [_occurring(examples[number], count) for number, count in sorted(held_out.items())],
    )


def _occurring(example: Example, count: int) -> Example:
    return replace(example, count=count)


def reply_examples(
    chat: Chat, transcripts: Mapping[Transcript, int], *, max_length: int, outcomes: bool = False
) -> list[Example]:
    """Examples of all replies that fit. The turns of an episode are one sequence where each prompt continues the last.

    max_length: most tokens of a sequence; a reply beyond it is left out. outcomes: whether the label of the return,
    after the last reply, is predicted too, and a second sequence begins with it, as in the tiny model's pretraining.
    """
    examples: list[Example] = []
    for transcript, count in transcripts.items():
        outcome = chat.encode(transcript[1]) if outcomes else ()
        rows, is_whole = _rows(chat, transcript, max_length - len(outcome))
        if outcome and is_whole:
            rows = _with_outcome(outcome, rows)
        examples += [Example(ids, places, count, images) for ids, places, images in rows]
    return examples


_Row = tuple[TokenIds, list[int], Images]
"""Tokens, the places of those that are predicted, and the images that they show."""


def _rows(chat: Chat, transcript: Transcript, max_length: int) -> tuple[list[_Row], bool]:
    """The sequences of a transcript, and whether they have all its replies."""
    messages = chat_messages(transcript[0])
    rows: list[_Row] = []
    for place, message in enumerate(messages):
        if message["role"] != "assistant":
            continue
        prompt = chat.prompt(messages[:place])
        reply = (*chat.encode(_written(chat, str(message["content"]))), chat.end_id)
        message["token_ids"] = reply
        ids, places = prompt + reply, list(range(len(prompt), len(prompt) + len(reply)))
        if len(ids) > max_length:
            return rows, False  # later prompts are longer
        if rows and prompt[: len(rows[-1][0])] == rows[-1][0]:
            places = rows.pop()[1] + places
        rows.append((ids, places, chat.images(messages[:place])))
    return rows, bool(rows)


def _written(chat: Chat, reply: str) -> str:
    """The reply as the model has to write it: where a prompt has begun its thinking, that ends first."""
    has_to_end = chat.template.opens_thinking and END_OF_THINKING not in reply
    return f"\n{END_OF_THINKING}\n\n{reply}" if has_to_end else reply


def _with_outcome(outcome: TokenIds, rows: Sequence[_Row]) -> list[_Row]:
    """The rows, the last with the outcome after it, and each with the outcome before it."""
    *others, (ids, places, images) = rows
    ended = (ids + outcome, places + list(range(len(ids), len(ids) + len(outcome))), images)
    hindsight = [(outcome + ids, [place + len(outcome) for place in places], images) for ids, places, images in rows]
    return [*others, ended, *hindsight]


def recorded_play(episodes: Sequence[RecordedEpisode], *, min_return: float, shows_tools: bool) -> CollectedPlay:
    """The transcripts of recorded episodes, each with the messages that its policy was shown when it was recorded.

    Left out are episodes that the environment failed, that ended with a reply without an action, or with a return below
    min_return; of the others each reply without an action, or that the environment refused. shows_tools: whether the
    model is shown the functions that its policy might call. Raises ValueError for episodes without messages, and for
    those with functions where the model is shown none.
    """
    played = CollectedPlay()
    kept: list[tuple[list[tuple[Message, ...]], float]] = []
    for episode in episodes:
        if episode.functions and not shows_tools:
            raise ValueError(
                f"episode {episode.episode_id} was recorded with functions, which this model is not shown: record with "
                "`openenv eval --no-tool-calls --save`."
            )
        conversations = list(_conversations(episode))
        if episode.outcome in ("invalid", "unparseable") or not conversations:
            played.num_left_out += 1
            continue
        value = episode.total_reward or 0.0
        played.best_return = max(played.best_return, value)
        if value < min_return:
            played.num_left_out += 1
            continue
        played.returns[value] += 1
        played.num_decisions += len(episode.steps)
        kept.append((conversations, value))
    labels = outcome_labels(played.returns)
    for conversations, value in kept:
        played.transcripts.update((messages, labels[value]) for messages in conversations)
    return played


def _conversations(episode: RecordedEpisode) -> Iterator[tuple[Message, ...]]:
    """What was shown and replied, once for turns that continue each other, as if no reply had been tried again."""
    newest: tuple[Message, ...] = ()
    failed: Message | None = None
    tries: list[tuple[Message, ...]] = []
    """Replies that took no action, each with what the model was shown after it."""
    for turn, prompt in episode.prompts():
        if isinstance(prompt, str) or isinstance(turn.reply, str):
            raise ValueError(
                f"episode {episode.episode_id} has its prompts as one text: record messages with `openenv eval --save`."
            )
        shown, reply = tuple(map(_message, prompt)), _message(turn.reply)
        if failed in shown:
            tries.append(shown[len(shown) - 1 - shown[::-1].index(failed) :])
        failed = reply if turn.action is None else None
        if failed is not None:
            continue
        messages = (*_without(shown, tries), reply)
        if newest and messages[: len(newest)] != newest:
            yield newest
        newest = messages
    if newest:
        yield newest


def _without(messages: tuple[Message, ...], runs: Sequence[tuple[Message, ...]]) -> Iterator[Message]:
    """The messages that are in none of these runs."""
    place = 0
    while place < len(messages):
        length = next((len(run) for run in runs if messages[place : place + len(run)] == run), 0)
        if not length:
            yield messages[place]
        place += max(length, 1)


def _message(message: Mapping[str, Any] | None) -> Message:
    """A message as a transcript has it. A call is the text that names it."""
    assert message is not None, "prompts() gives turns with a reply"
    calls = message.get("tool_calls")
    if calls:
        function = calls[0]["function"]
        return message["role"], call_text(function["name"], json.loads(function["arguments"]))
    return message["role"], frozen(message["content"])
