"""The reading phase: transcripts of uniformly random legal play, with their outcomes, and next-token training on them.

It teaches the model the words of the game, the form of a reply, and that outcomes depend on what is seen. It contains
no good play: every move in it was drawn uniformly from the legal ones.
"""

import logging
import random
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from openenv.core.client_types import StepResult
from openenv.core.errors import OpenEnvError
from openenv.core.text import TextInterface
from openenv.rl.chat import Chat, TokenIds
from openenv.rl.config import Precision, ReadingConfig
from openenv.rl.episodes import Decision, Sessions, play
from openenv.rl.model import autocast, padded, row_count

log = logging.getLogger(__name__)

Exchange = tuple[str, str]
"""What was seen and what was replied."""
Transcript = tuple[tuple[Exchange, ...], str]
"""The exchanges, and how the episode ended."""
Progress = Callable[[int, int], None]


@dataclass(slots=True)
class RandomPlay:
    """What was gathered."""

    transcripts: Counter[Transcript] = field(default_factory=Counter)
    """How often each transcript came."""
    num_episodes: int = 0
    """Episodes that ended well; those that the environment broke are left out."""
    num_decisions: int = 0

    @property
    def decisions_per_episode(self) -> float:
        """Mean length of an episode; 1 when nothing was played."""
        return max(1.0, self.num_decisions / max(1, self.num_episodes))


_FIRST_SEED = 900_000_000  # above the seeds of training, below those of evaluation
_WARMUP_STEPS = 50
_MOST_FAILURES = 20  # without one episode that ended well: then it is no accident


async def play_at_random(
    pool: Sessions,
    text: TextInterface[Any, Any],
    config: ReadingConfig,
    *,
    reset: Mapping[str, Any],
    seed: int,
    on_progress: Progress | None = None,
) -> RandomPlay:
    """Play at random through the pool's server.

    With history `latest` each decision makes a transcript of its own (the episode's outcome after it), with `full` each
    episode makes one. Episodes that the environment broke are left out; when all of the first 20 are broken, the last
    one's OpenEnvError is raised.
    """
    reader = _RandomPlayer(text, random.Random(seed), config, on_progress)
    await play(pool, reader.resets(reset), reader)
    gathered = reader.gathered
    log.info("gathered random play: episodes=%d decisions=%d", gathered.num_episodes, gathered.num_decisions)
    return gathered


class _RandomPlayer:
    def __init__(
        self, text: TextInterface[Any, Any], rng: random.Random, config: ReadingConfig, on_progress: Progress | None
    ) -> None:
        self.gathered = RandomPlay()
        self._text = text
        self._rng = rng
        self._config = config
        self._on_progress = on_progress
        self._exchanges: dict[int, list[Exchange]] = {}
        self._returns: Counter[int] = Counter()
        self._num_failed = 0

    def resets(self, reset: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        """Keywords of one episode after the other, until there are enough decisions."""
        for number in range(self._config.max_episodes):
            if self.gathered.num_decisions >= self._config.max_decisions:
                return
            yield {**reset, "seed": _FIRST_SEED + number}

    async def act(self, decisions: list[Decision]) -> list[Any]:
        actions = []
        for decision in decisions:
            replies = self._text.replies(decision.observation)
            reply = self._rng.choice(list(replies))
            seen = self._text.describe(decision.observation)
            self._exchanges.setdefault(decision.episode, []).append((seen, reply))
            actions.append(replies[reply])
        self.gathered.num_decisions += len(decisions)
        if self._on_progress is not None:
            self._on_progress(min(self.gathered.num_decisions, self._config.max_decisions), self._config.max_decisions)
        return actions

    def stepped(self, episode: int, result: StepResult[Any]) -> None:
        self._returns[episode] += result.reward or 0.0  # type: ignore[assignment]
        if not result.done:
            return
        self.gathered.num_episodes += 1
        outcome = self._text.outcome(float(self._returns.pop(episode)))
        exchanges = self._exchanges.pop(episode, [])
        parts = [exchanges] if self._text.history == "full" else [[exchange] for exchange in exchanges]
        self.gathered.transcripts.update((tuple(part), outcome) for part in parts if part)

    def failed(self, episode: int, error: OpenEnvError) -> None:
        log.warning("random play: episode left out: %s", error)
        self._exchanges.pop(episode, None)
        self._num_failed += 1
        if self._num_failed >= _MOST_FAILURES and not self.gathered.num_episodes:
            raise error


def transcript_words(transcripts: Counter[Transcript]) -> list[str]:
    """All texts of the transcripts, sorted, for the tokenizer: equal games give equal vocabularies."""
    texts = {text for exchanges, outcome in transcripts for pair in exchanges for text in pair}
    return sorted(texts | {outcome for _, outcome in transcripts})


def transcript_ids(chat: Chat, transcript: Transcript) -> TokenIds:
    """The transcript as the chat template writes it, each reply with its end token, the outcome last."""
    exchanges, outcome = transcript
    ids: TokenIds = ()
    for number, (seen, reply) in enumerate(exchanges):
        user = {"role": "user", "content": seen}
        ids += chat.prompt([user]) if number == 0 else chat.continuation([user], reply_ended=True)
        ids += (*chat.encode(reply), chat.end_id)
    return ids + chat.encode(outcome)


def read(
    model: PreTrainedModel,
    chat: Chat,
    transcripts: Counter[Transcript],
    config: ReadingConfig,
    *,
    precision: Precision,
    seed: int,
    on_progress: Progress | None = None,
) -> list[float]:
    """Train `model` to predict each token of the transcripts. Returns the loss of every batch, in nats per token.

    Equal transcripts in a batch are run once and weighted by their number.
    """
    rows = [transcript_ids(chat, transcript) for transcript in transcripts]
    input_ids = padded(rows, chat.pad_id)
    lengths = torch.tensor([len(row) for row in rows])
    frequency = torch.tensor(list(transcripts.values()), dtype=torch.float32)
    draws = torch.Generator().manual_seed(seed)
    optimizer = torch.optim.AdamW(model.parameters(), lr=config.lr, betas=(0.9, 0.98), weight_decay=0.01)
    model.train()
    losses = []
    for step in range(config.steps):
        drawn = torch.multinomial(frequency, config.batch_size, replacement=True, generator=draws)
        index, counts = _evened(*torch.unique(drawn, return_counts=True))
        for group in optimizer.param_groups:
            group["lr"] = config.lr * _schedule(step, config.steps)
        with autocast(precision, model.device):
            loss = _reading_loss(model, input_ids[index], lengths[index], counts)
        optimizer.zero_grad(set_to_none=True)
        torch.autograd.backward(loss)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        losses.append(loss.item())
        if on_progress is not None:
            on_progress(step + 1, config.steps)
    return losses


def _evened(index: Tensor, counts: Tensor) -> tuple[Tensor, Tensor]:
    """The same rows and, up to a number that other batches have too, the first one again with weight 0."""
    gap = row_count(len(index)) - len(index)
    return torch.cat([index, index[:1].expand(gap)]), torch.cat([counts, counts.new_zeros(gap)])


def _schedule(step: int, steps: int) -> float:
    """Warm-up, then flat to the middle, then down to a tenth."""
    late = max(0.0, step / steps - 0.5) / 0.5
    return min(1.0, (step + 1) / _WARMUP_STEPS) * (1.0 - 0.9 * late)


def _reading_loss(model: PreTrainedModel, input_ids: Tensor, lengths: Tensor, counts: Tensor) -> Tensor:
    """Mean next-token loss over the tokens of weighted rows. input_ids: [U, L]; lengths, counts: [U]."""
    input_ids = input_ids[:, : int(lengths.max())]
    logits = model(input_ids=input_ids[:, :-1], use_cache=False).logits.float()
    losses = torch.nn.functional.cross_entropy(logits.transpose(1, 2), input_ids[:, 1:], reduction="none")
    inside = torch.arange(1, input_ids.shape[1])[None, :] < lengths[:, None]
    weights = inside * counts[:, None]
    return (losses * weights).sum() / weights.sum()
