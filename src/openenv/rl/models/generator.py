"""Samples replies from the model: one forward pass per distinct context, with the log-probability of each token."""

import random
from bisect import bisect_left
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, TypeVar

import torch
from torch import Tensor
from transformers import DynamicCache, PreTrainedModel

from openenv.policies.prompts import ChatMessage, SampledReply
from openenv.rl.config import Precision
from openenv.rl.models.chat import Chat, TokenIds
from openenv.rl.models.language_model import WeightStore, autocast, output_logits, row_count
from openenv.rl.rollouts.trajectory import Segment

Context = TypeVar("Context")


@dataclass(slots=True)
class _Reply:
    """One reply during sampling."""

    stream: random.Random
    token_ids: list[int]
    logprobs: list[float]
    context: int = 0
    """Index of this row's context among the current distinct contexts."""


class Generator:
    """A copy of the model that samples replies. Rows with equal contexts share one forward pass.

    Not thread-safe: call it from one thread at a time. Newer weights are loaded from the store between calls.
    """

    def __init__(
        self,
        model: PreTrainedModel,
        chat: Chat,
        *,
        max_new_tokens: int,
        precision: Precision = "float32",
        store: WeightStore | None = None,
        temperature: float = 1.0,
    ) -> None:
        self.model = model.train(False)
        self.chat = chat
        self.max_new_tokens = max_new_tokens
        self.precision = precision
        self.store = store
        self.temperature = temperature
        """1 samples from the model, which training requires; 0 takes the most likely token."""
        self.policy_version = -1
        self._own_stream = random.Random(0)

    @torch.no_grad()
    def generate(self, prompts: Sequence[TokenIds], streams: Sequence[random.Random]) -> list[Segment]:
        """One reply for each prompt, as a segment of prompt and sampled tokens.

        streams: the random numbers of each row, one per token, so that a reply does not depend on what else is in the
        batch. Log-probabilities are those of temperature 1.
        """
        if self.store is not None:
            self.policy_version = self.store.load_newer(self.model, self.policy_version)
        rows = [_Reply(stream, [], []) for stream in streams]
        numbers: dict[TokenIds, int] = {}
        for row, prompt in zip(rows, prompts, strict=True):
            row.context = numbers.setdefault(prompt, len(numbers))
        if rows:
            self._write(rows, list(numbers))
        return [self._segment(prompt, row) for prompt, row in zip(prompts, rows, strict=True)]

    def complete(self, conversations: Sequence[Sequence[ChatMessage]]) -> list[SampledReply]:
        """The model's reply to each conversation: the `complete` of a `LanguageModelPolicy`."""
        streams = [self._own_stream for _ in conversations]
        segments = self.generate([self.chat.prompt(messages) for messages in conversations], streams)
        return [self.reply(segment) for segment in segments]

    def reply(self, segment: Segment) -> SampledReply:
        """The sampled tokens of a segment, as text and as ids."""
        ids = [token for token, sampled in zip(segment.token_ids, segment.sampled, strict=True) if sampled]
        return SampledReply(self.chat.text(ids), ids)

    def seed(self, seed: int) -> None:
        """Seed the random numbers of `complete`."""
        self._own_stream = random.Random(seed)

    def _write(self, rows: list[_Reply], contexts: list[TokenIds]) -> None:
        input_ids, mask = self._left_padded(contexts)
        cache: Any = DynamicCache(config=self.model.config)
        for position in range(self.max_new_tokens):
            logits = self._forward(input_ids, mask, cache)
            self._sample(rows, logits)
            rows = [row for row in rows if row.token_ids[-1] != self.chat.end_id]
            if not rows or position == self.max_new_tokens - 1:
                return
            parents, tokens = self._branch(rows)
            cache.batch_select_indices(parents)
            input_ids = tokens[:, None]
            mask = torch.cat([mask[parents], torch.ones_like(input_ids)], dim=1)

    def _forward(self, input_ids: Tensor, mask: Tensor, cache: Any) -> Tensor:
        """Log-probabilities of the next token, [contexts, vocabulary]. The cache grows by input_ids."""
        positions = (mask.cumsum(1) - 1).clamp(min=0)[:, -input_ids.shape[1] :]
        full = bool(mask.all())  # then the causal mask suffices, which is also what the trainer uses
        with autocast(self.precision, self.model.device):
            hidden = self.model.base_model(
                input_ids=input_ids,
                attention_mask=None if full else mask,
                position_ids=positions,
                past_key_values=cache,
                use_cache=True,
            ).last_hidden_state
            logits = output_logits(self.model, hidden[:, -1])
        return torch.log_softmax(logits.float(), dim=-1)

    def _sample(self, rows: list[_Reply], logprobs: Tensor) -> None:
        """Append a token to each row: the inverse of the cumulative distribution at the row's next random number."""
        table = logprobs.tolist()
        if self.temperature == 0:
            best = logprobs.argmax(dim=-1).tolist()
            tokens = [best[row.context] for row in rows]
        else:
            sharpened = torch.softmax(logprobs.double() / self.temperature, dim=-1)
            cumulative = sharpened.cumsum(dim=-1).tolist()
            last = len(cumulative[0]) - 1
            tokens = [min(bisect_left(cumulative[row.context], row.stream.random()), last) for row in rows]
        for row, token in zip(rows, tokens, strict=True):
            row.token_ids.append(token)
            row.logprobs.append(table[row.context][token])

    def _branch(self, rows: list[_Reply]) -> tuple[Tensor, Tensor]:
        """The distinct continuations of the current contexts: each one's parent context and its new token."""
        numbers: dict[tuple[int, int], int] = {}
        for row in rows:
            row.context = numbers.setdefault((row.context, row.token_ids[-1]), len(numbers))
        pairs = torch.tensor(_padded_contexts(list(numbers)), device=self.model.device)
        return pairs[:, 0], pairs[:, 1]

    def _left_padded(self, contexts: list[TokenIds]) -> tuple[Tensor, Tensor]:
        contexts = _padded_contexts(contexts)
        width = max(map(len, contexts))
        gaps = [width - len(context) for context in contexts]
        ids = [(self.chat.pad_id,) * gap + context for gap, context in zip(gaps, contexts, strict=True)]
        mask = [(0,) * gap + (1,) * (width - gap) for gap in gaps]
        return torch.tensor(ids, device=self.model.device), torch.tensor(mask, device=self.model.device)

    def _segment(self, prompt: TokenIds, row: _Reply) -> Segment:
        shown, written = len(prompt), len(row.token_ids)
        return Segment(
            token_ids=(*prompt, *row.token_ids),
            sampled=(False,) * shown + (True,) * written,
            logprobs=(0.0,) * shown + tuple(row.logprobs),
            policy_version=self.policy_version,
        )


def _padded_contexts(contexts: list[Context]) -> list[Context]:
    """The contexts, padded with copies of the first to a row count that recurs. No row uses the copies."""
    return contexts + contexts[:1] * (row_count(len(contexts)) - len(contexts))
