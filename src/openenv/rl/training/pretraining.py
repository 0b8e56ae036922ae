"""Pretraining: next-token training on transcripts of uniformly random legal play, with their outcomes.

It teaches the model the words of the game, the form of a reply, and that outcomes depend on the observation. It
contains no good play: every action was drawn uniformly from the legal ones.
"""

import logging
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from openenv.core.client_types import StepResult
from openenv.core.errors import OpenEnvError
from openenv.core.text.content import frozen, text_of, thawed
from openenv.core.text_interface import History, TextInterface
from openenv.evaluation.episodes import EpisodeRunner, EpisodeSessions, PendingAction
from openenv.policies.baselines import RandomPolicy
from openenv.policies.prompts import ChatMessage, PromptBuilder, assistant_message
from openenv.rl.config import Precision, PretrainConfig
from openenv.rl.models.chat import Chat
from openenv.rl.models.images import Images, image_inputs
from openenv.rl.models.language_model import autocast, padded, row_count
from openenv.rl.models.prompt_tokens import TokenIds
from openenv.rl.training.outcome_labels import outcome_labels

log = logging.getLogger(__name__)

Message = tuple[str, Hashable]
"""Role and content, which `thawed` makes that of a chat message."""
Transcript = tuple[tuple[Message, ...], str]
"""A prompt with its reply, and the outcome of the episode."""
OnCount = Callable[[int, int], None]
"""Called with how much is done and how much there is."""

_FIRST_SEED = 900_000_000  # above the seeds of training, below those of evaluation
_WARMUP_STEPS = 50
_MAX_FAILURES = 20  # before the first valid episode


@dataclass(slots=True)
class RandomPlay:
    """Transcripts of random play."""

    transcripts: Counter[Transcript] = field(default_factory=Counter)
    """Each transcript with its number of occurrences."""
    returns: Counter[float] = field(default_factory=Counter)
    """Each return with its number of valid episodes; those that the environment failed are left out."""
    num_decisions: int = 0

    def add(self, other: "RandomPlay") -> None:
        """Add what others have played."""
        self.transcripts.update(other.transcripts)
        self.returns.update(other.returns)
        self.num_decisions += other.num_decisions

    @property
    def num_episodes(self) -> int:
        """Number of valid episodes."""
        return self.returns.total()

    @property
    def decisions_per_episode(self) -> float:
        """Mean number of decisions of an episode; at least 1."""
        return max(1.0, self.num_decisions / max(1, self.num_episodes))


async def play_at_random(
    pool: EpisodeSessions,
    text: TextInterface[Any, Any],
    config: PretrainConfig,
    *,
    reset: Mapping[str, Any],
    seed: int,
    instructions: bool = False,
    history: History | None = None,
    max_turns: int | None = None,
    on_progress: OnCount | None = None,
    is_time_up: Callable[[], bool] = lambda: False,
) -> RandomPlay:
    """Collect transcripts of random play, with the prompts of training.

    instructions: whether a system message with the rules comes first. With history `latest` each decision is a
    transcript of its own, followed by the label of the episode's return (`outcome_labels`); with `full` each episode is
    one transcript. history: None for the text interface's own. max_turns: actions after which an episode is stopped;
    None: no limit. Failed episodes are left out. If the first 20 all fail, their last error is raised. is_time_up: no
    episode begins after it has returned True, but for the first.
    """
    prompts = PromptBuilder(text, instructions=instructions, history=history)
    player = _TranscribingPlayer(prompts, RandomPolicy(seed, text=text), config, on_progress, is_time_up)
    await EpisodeRunner(pool, player, max_steps=max_turns).run(player.resets(reset))
    collected = player.collected
    labels = outcome_labels(collected.returns, text)
    for (messages, value), count in player.conversations.items():
        collected.transcripts[messages, labels[value]] += count
    log.info("collected random play: episodes=%d decisions=%d", collected.num_episodes, collected.num_decisions)
    return collected


class _TranscribingPlayer:
    """Plays the policy's replies and writes the transcripts."""

    def __init__(
        self,
        prompts: PromptBuilder,
        policy: RandomPolicy,
        config: PretrainConfig,
        on_progress: OnCount | None,
        is_time_up: Callable[[], bool],
    ) -> None:
        self.collected = RandomPlay()
        """Without the transcripts, whose labels need all returns."""
        self.conversations: Counter[tuple[tuple[Message, ...], float]] = Counter()
        """What was shown and replied, with the return of the episode."""
        self._prompts = prompts
        self._policy = policy
        self._config = config
        self._on_progress = on_progress
        self._is_time_up = is_time_up
        self._running: dict[int, list[list[ChatMessage]]] = {}
        """By episode: what was shown and replied, of each decision or of the whole episode."""
        self._returns: Counter[int] = Counter()
        self._num_failed = 0

    def resets(self, reset: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Reset keywords of one episode after the other, until there are enough decisions."""
        for number in range(self._config.max_episodes):
            if self.collected.num_decisions >= self._config.max_decisions:
                return
            if number and self._is_time_up():
                log.warning("max_minutes: random play ends after %d decisions", self.collected.num_decisions)
                return
            yield {**reset, "seed": _FIRST_SEED + number}

    async def act(self, pending: list[PendingAction]) -> list[Any]:
        """A random reply's action for each episode."""
        actions = []
        for turn in pending:
            reply, action = self._policy.select_reply(turn.observation)
            messages = [*self._prompts.messages(turn.episode, turn.observation), assistant_message(reply)]
            self._prompts.add_reply(turn.episode, reply)
            conversations = self._running.setdefault(turn.episode, [])
            if self._prompts.remembers_episodes:
                conversations.clear()
            conversations.append(messages)
            actions.append(action)
        self.collected.num_decisions += len(pending)
        if self._on_progress is not None:
            most = self._config.max_decisions
            self._on_progress(min(self.collected.num_decisions, most), most)
        return actions

    def on_result(self, episode: int, result: StepResult[Any]) -> None:
        """Add the reward; at the end of the episode keep its conversations."""
        if result.reward is not None:
            self._returns[episode] += result.reward  # type: ignore[assignment]
        if result.done:
            self._finish(episode)

    def on_step_limit(self, episode: int) -> None:
        """Keep the conversations of an episode that was stopped."""
        self._finish(episode)

    def _finish(self, episode: int) -> None:
        value = float(self._returns.pop(episode, 0.0))
        self.collected.returns[value] += 1
        for messages in self._forget(episode):
            written = tuple((message["role"], frozen(message["content"])) for message in messages)
            self.conversations[written, value] += 1

    def on_failure(self, episode: int, error: OpenEnvError) -> None:
        """Leave the episode out. Raises the error if no episode has succeeded."""
        log.warning("random play: left out an episode: %s", error)
        self._forget(episode)
        self._num_failed += 1
        if self._num_failed >= _MAX_FAILURES and not self.collected.num_episodes:
            raise error

    def _forget(self, episode: int) -> list[list[ChatMessage]]:
        """The conversations of an episode that has ended."""
        self._prompts.end_episode(episode)
        return self._running.pop(episode, [])


def transcript_words(transcripts: Counter[Transcript]) -> list[str]:
    """All texts of the transcripts, sorted, for the tokenizer: equal games give equal vocabularies."""
    texts = {text_of(thawed(content)) for messages, _ in transcripts for _, content in messages}
    return sorted(texts | {outcome for _, outcome in transcripts})


def chat_messages(messages: Iterable[Message]) -> list[ChatMessage]:
    """Messages of a transcript as those of a chat."""
    return [{"role": role, "content": thawed(content)} for role, content in messages]


def have_images(transcripts: Counter[Transcript]) -> bool:
    """Whether a transcript shows an image."""
    return any(not isinstance(content, str) for messages, _ in transcripts for _, content in messages)


def transcript_ids(chat: Chat, transcript: Transcript) -> TokenIds:
    """The transcript in the chat template: prompts as in play, each reply with its end token, and the outcome last."""
    messages = chat_messages(transcript[0])
    reply_ids: TokenIds = ()
    for message in messages:
        if message["role"] == "assistant":
            message["token_ids"] = reply_ids = (*chat.encode(str(message["content"])), chat.end_id)
    return chat.prompt(messages[:-1]) + reply_ids + chat.encode(transcript[1])


def hindsight_ids(chat: Chat, transcript: Transcript) -> TokenIds:
    """The outcome first, then the transcript: the reply is read knowing how the episode ended."""
    whole = transcript_ids(chat, transcript)
    outcome = chat.encode(transcript[1])
    return outcome + whole[: len(whole) - len(outcome)]


def pretrain(
    model: PreTrainedModel,
    chat: Chat,
    transcripts: Counter[Transcript],
    config: PretrainConfig,
    *,
    precision: Precision,
    seed: int,
    on_progress: OnCount | None = None,
    is_time_up: Callable[[], bool] = lambda: False,
) -> list[float]:
    """Train `model` to predict each token of the transcripts. Returns the loss of every batch, in nats per token.

    Equal transcripts in a batch are run once and weighted by their number. is_time_up: no batch begins after it has
    returned True.
    """
    rows = [transcript_ids(chat, transcript) for transcript in transcripts]
    rows += [hindsight_ids(chat, transcript) for transcript in transcripts]
    images = [chat.images(chat_messages(messages)) for messages, _ in transcripts] * 2
    input_ids = padded(rows, chat.pad_id).to(model.device)
    lengths = torch.tensor([len(row) for row in rows], device=model.device)
    frequency = torch.tensor(list(transcripts.values()), dtype=torch.float32).repeat(2)
    draws = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    losses = []
    for step in range(config.steps):
        if is_time_up():
            log.warning("max_minutes: pretraining ends after %d of %d batches", step, config.steps)
            break
        drawn = torch.multinomial(frequency, config.batch_size, replacement=True, generator=draws)
        index, counts = (part.to(model.device) for part in _padded_rows(*torch.unique(drawn, return_counts=True)))
        for group in optimizer.param_groups:
            group["lr"] = config.lr * _schedule(step, config.steps)
        with autocast(precision, model.device):
            shown = [images[row] for row in index.tolist()]
            loss = _next_token_loss(model, input_ids[index], lengths[index], counts, shown)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if on_progress is not None:
            on_progress(step + 1, config.steps)
    return losses


def _padded_rows(index: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Pad with copies of the first row, of weight 0, to a row count that recurs."""
    gap = row_count(len(index)) - len(index)
    return torch.cat([index, index[:1].expand(gap)]), torch.cat([counts, counts.new_zeros(gap)])


def _schedule(step: int, steps: int) -> float:
    """Factor of the learning rate: warm-up, constant until the middle, then a straight line down to a tenth."""
    late = max(0.0, step / steps - 0.5) / 0.5
    return min(1.0, (step + 1) / _WARMUP_STEPS) * (1.0 - 0.9 * late)


def _next_token_loss(
    model: PreTrainedModel, input_ids: Tensor, lengths: Tensor, counts: Tensor, images: Sequence[Images]
) -> Tensor:
    """Mean next-token loss over the tokens of weighted rows. input_ids: [U, L]; lengths, counts: [U]; images: [U]."""
    input_ids = input_ids[:, : int(lengths.max())]
    shown = image_inputs(model, input_ids[:, :-1], images)[0] if any(images) else {}
    logits = model(input_ids=input_ids[:, :-1], use_cache=False, **shown).logits.float()
    losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), input_ids[:, 1:], reduction="none")
    inside = torch.arange(1, input_ids.shape[1], device=lengths.device)[None, :] < lengths[:, None]
    weights = inside * counts[:, None]
    if shown:
        weights = weights * (input_ids[:, 1:] != model.config.image_token_id)
    return (losses * weights).sum() / weights.sum()
