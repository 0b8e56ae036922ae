"""Pretraining: next-token training on transcripts of uniformly random legal play, with their outcomes.

It teaches the model the words of the game, the form of a reply, and that outcomes depend on the observation. It
contains no good play: every action was drawn uniformly from the legal ones.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from openenv.core.client_types import StepResult
from openenv.core.errors import OpenEnvError
from openenv.core.text.content import frozen
from openenv.core.text_interface import History, TextInterface
from openenv.evaluation.episodes import EpisodeRunner, EpisodeSessions, PendingAction
from openenv.policies.baselines import RandomPolicy
from openenv.policies.prompts import ChatMessage, PromptBuilder, assistant_message
from openenv.rl.config import Precision, PretrainConfig
from openenv.rl.models.chat import Chat
from openenv.rl.models.images import Images, image_inputs
from openenv.rl.models.language_model import autocast, padded, row_count
from openenv.rl.training.outcome_labels import outcome_labels
from openenv.rl.training.transcripts import Message, Transcript, chat_messages, fitting, hindsight_ids, transcript_ids

log = logging.getLogger(__name__)

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
    acts_for_all: bool = False
    """Whether the player acted for several seats of a game, as the observations' metadata name them."""

    def add(self, other: "RandomPlay") -> None:
        """Add what others have played."""
        self.transcripts.update(other.transcripts)
        self.returns.update(other.returns)
        self.num_decisions += other.num_decisions
        self.acts_for_all |= other.acts_for_all

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
        self._seats: dict[int, Any] = {}
        """By episode: the seat of its first decision."""
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
            seat = (getattr(turn.observation, "metadata", None) or {}).get("agent_player")
            self.collected.acts_for_all |= self._seats.setdefault(turn.episode, seat) != seat
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
        self._seats.pop(episode, None)
        self._prompts.end_episode(episode)
        return self._running.pop(episode, [])


def pretrain(
    model: PreTrainedModel,
    chat: Chat,
    transcripts: Counter[Transcript],
    config: PretrainConfig,
    *,
    precision: Precision,
    seed: int,
    max_length: int,
    tokens_per_forward: int,
    on_progress: OnCount | None = None,
    is_time_up: Callable[[], bool] = lambda: False,
) -> list[float]:
    """Train `model` to predict each token of the transcripts. Returns the loss of every batch, in nats per token.

    Equal transcripts in a batch are run once and weighted by their number. max_length: most tokens of a transcript; a
    longer one is divided. tokens_per_forward: most tokens in one forward and backward pass, padding included; gradients
    are summed over passes. is_time_up: no batch begins after it has returned True.
    """
    transcripts = fitting(chat, transcripts, max_length)
    rows = [transcript_ids(chat, transcript) for transcript in transcripts]
    rows += [hindsight_ids(chat, transcript) for transcript in transcripts]
    images = [chat.images(chat_messages(messages)) for messages, _ in transcripts] * 2
    input_ids = padded(rows, chat.pad_id).to(model.device)
    lengths = torch.tensor([len(row) for row in rows], device=model.device)
    frequency = torch.tensor(list(transcripts.values()), dtype=torch.float32).repeat(2)
    size = max(1, round(config.batch_size / _decisions_per_transcript(transcripts)))
    draws = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    losses = []
    for step in range(config.steps):
        if is_time_up():
            log.warning("max_minutes: pretraining ends after %d of %d batches", step, config.steps)
            break
        drawn = torch.multinomial(frequency, size, replacement=True, generator=draws)
        index, counts = (part.to(model.device) for part in _padded_rows(*torch.unique(drawn, return_counts=True)))
        for group in optimizer.param_groups:
            group["lr"] = config.lr * _schedule(step, config.steps)
        optimizer.zero_grad(set_to_none=True)
        batch = _Batch(input_ids[index], lengths[index], counts, [images[row] for row in index.tolist()])
        losses.append(_add_gradient(model, batch, precision, tokens_per_forward))
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        if on_progress is not None:
            on_progress(step + 1, config.steps)
    return losses


def _decisions_per_transcript(transcripts: Counter[Transcript]) -> float:
    """The mean number of replies of a transcript."""
    replies = sum(
        count * sum(role == "assistant" for role, _ in messages) for (messages, _), count in transcripts.items()
    )
    return max(1.0, replies / max(1, transcripts.total()))


def _padded_rows(index: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """Pad with copies of the first row, of weight 0, to a row count that recurs."""
    gap = row_count(len(index)) - len(index)
    return torch.cat([index, index[:1].expand(gap)]), torch.cat([counts, counts.new_zeros(gap)])


def _schedule(step: int, steps: int) -> float:
    """Factor of the learning rate: warm-up, constant until the middle, then a straight line down to a tenth."""
    late = max(0.0, step / steps - 0.5) / 0.5
    return min(1.0, (step + 1) / _WARMUP_STEPS) * (1.0 - 0.9 * late)


@dataclass(frozen=True, slots=True)
class _Batch:
    """U weighted rows of a batch, padded to length L."""

    input_ids: Tensor  # [U, L]
    lengths: Tensor  # [U]
    counts: Tensor  # [U] how often each row was drawn
    images: Sequence[Images]  # [U]


def _add_gradient(model: PreTrainedModel, batch: _Batch, precision: Precision, tokens_per_forward: int) -> float:
    """Add the gradient of the mean next-token loss, over tokens that are drawn, to the model's. Returns the loss."""
    input_ids = batch.input_ids[:, : int(batch.lengths.max())]
    places = torch.arange(1, input_ids.shape[1], device=input_ids.device)
    weights = (places[None, :] < batch.lengths[:, None]) * batch.counts[:, None]
    if any(batch.images):
        weights = weights * (input_ids[:, 1:] != model.config.image_token_id)
    weights = weights / weights.sum()
    total, rows = 0.0, max(1, tokens_per_forward // input_ids.shape[1])
    for start in range(0, len(input_ids), rows):
        part = slice(start, start + rows)
        with autocast(precision, model.device):
            loss = _next_token_loss(model, input_ids[part], weights[part], batch.images[part])
        torch.autograd.backward(loss)
        total += loss.item()
    return total


def _next_token_loss(model: PreTrainedModel, input_ids: Tensor, weights: Tensor, images: Sequence[Images]) -> Tensor:
    """Weighted sum of the next-token losses. input_ids: [U, L]; weights: [U, L - 1]; images: [U]."""
    shown = image_inputs(model, input_ids[:, :-1], images)[0] if any(images) else {}
    logits = model(input_ids=input_ids[:, :-1], use_cache=False, **shown).logits.float()
    losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), input_ids[:, 1:], reduction="none")
    return (losses * weights).sum()
