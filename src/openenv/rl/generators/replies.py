"""Replies during sampling, and the rest of them on a GPU."""

import copy
import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedModel

from openenv.rl.config import Precision
from openenv.rl.generators.drawing import chosen
from openenv.rl.generators.static_decoder import StaticDecoder, StaticDecoders
from openenv.rl.models.chat import Chat
from openenv.rl.models.reply_masks import Mask, ReplyState, allows, masked, num_allowed

_UNREAD = 8
"""Most tokens of free replies that stay on the device before the processor looks at them."""


@dataclass(slots=True)
class Reply:
    """One reply during sampling."""

    stream: random.Random
    token_ids: list[int] = field(default_factory=list)
    logprobs: list[float] = field(default_factory=list)
    masks: list[Mask | None] = field(default_factory=list)
    """The tokens among which each was drawn; None: all."""
    context: int = 0
    """Index of this row's context among the current distinct contexts."""

    def add(self, token: int, logprob: float, mask: Mask | None) -> None:
        """Append a token. mask: the tokens among which it was drawn."""
        self.token_ids.append(token)
        self.logprobs.append(logprob)
        self.masks.append(mask)

    def has_ended(self, chat: Chat) -> bool:
        """Whether its last token ended it."""
        return self.token_ids[-1] in chat.end_ids

    def takes_its_end(self, chat: Chat, state: ReplyState | None) -> bool:
        """Whether an end token is the only one to follow. It is added then, without a pass.

        state: after the last token; None: nothing limits the reply.
        """
        mask = None if state is None else state.mask
        if mask is None or num_allowed(mask) > 1 or not allows(mask, chat.end_id):
            return False
        self.add(chat.end_id, 0.0, mask)
        return True


class CapturedReplies:
    """Writes replies on a GPU from their second token on, each in a place of its own.

    Tokens stay on the device while nothing depends on them: up to `_UNREAD` of free replies. A limited reply needs each
    token for the mask of the next.
    """

    def __init__(self, model: PreTrainedModel, chat: Chat, precision: Precision) -> None:
        self._chat = chat
        self._decoders = StaticDecoders(model, precision)

    def write(
        self,
        rows: list[Reply],
        states: list[ReplyState | None],
        cache: Any,
        mask: Tensor,
        room: int,
        temperature: float,
    ) -> None:
        """Write the rest of the replies.

        Args:
            rows: their contexts are rows of the cache.
            states: of the rows, after their last tokens.
            cache, mask: of what was read, [rows of the cache, length].
            room: tokens that may follow.
            temperature: of sampling; 0: the likeliest tokens.
        """
        while rows and room > 0:
            places = torch.tensor([[row.context, row.token_ids[-1]] for row in rows], device=mask.device)
            decoder = self._decoders.begun(cache, places[:, 0], mask, places[:, 1], room)
            for place, row in enumerate(rows):
                row.context = place
            stage = _Stage(self._chat, decoder, rows, states)
            rows, states = stage.write(min(room, decoder.num_new), room, temperature)
            cache, mask, room = decoder.cache, decoder.mask, room - decoder.num_new


class _Stage:
    """The tokens of one decoder."""

    def __init__(self, chat: Chat, decoder: StaticDecoder, rows: list[Reply], states: list[ReplyState | None]) -> None:
        self._chat = chat
        self._decoder = decoder
        self._rows = rows
        self._states = list(states)
        self._live = list(range(len(rows)))

    def write(self, count: int, room: int, temperature: float) -> tuple[list[Reply], list[ReplyState | None]]:
        """Write up to `count` tokens of each row. Returns the rows that have not ended, and their states."""
        device = self._decoder.tokens.device
        every = torch.arange(len(self._rows), device=device)
        numbers = None if temperature == 0 else self._numbers(count).T.contiguous().to(device)
        unread: list[Tensor] = []
        for position in range(count):
            masks = [None if state is None else state.mask for state in self._states]
            logprobs = torch.log_softmax(masked(self._decoder()[: len(self._rows)], masks), dim=-1)
            tokens = chosen(logprobs, every, None if numbers is None else numbers[position], temperature)
            self._decoder.tokens[: len(self._rows), 0] = tokens
            unread.append(torch.stack([tokens.double(), logprobs[every, tokens].double()], dim=1))
            is_free = all(state is None for state in self._states)
            if is_free and len(unread) < _UNREAD and position < count - 1:
                continue
            written = torch.stack(unread, dim=1).tolist()
            unread.clear()
            self._live = [
                place
                for place in self._live
                if self._goes_on(place, written[place], masks[place], room - position - 1, draws=numbers is not None)
            ]
            if not self._live:
                break
        return [self._rows[place] for place in self._live], [self._states[place] for place in self._live]

    def _numbers(self, count: int) -> Tensor:
        """The next random numbers of each row, [R, count]. The streams move when tokens are read."""
        ahead = [copy.copy(row.stream) for row in self._rows]
        return torch.tensor([[stream.random() for _ in range(count)] for stream in ahead], dtype=torch.float64)

    def _goes_on(
        self, place: int, written: Iterable[tuple[float, float]], mask: Mask | None, room: int, *, draws: bool
    ) -> bool:
        """Read what was written in a place, tokens and their log-probabilities. Returns whether the reply goes on.

        mask: of each token; that of a limited reply, which has one. draws: whether each took a random number.
        """
        row, state = self._rows[place], self._states[place]
        self._states[place] = None
        for token, logprob in written:
            row.add(int(token), logprob, mask)
            if draws:
                row.stream.random()
            if row.has_ended(self._chat):
                return False
            state = None if state is None or not room else state.after(int(token))
            if row.takes_its_end(self._chat, state):
                return False
        self._states[place] = state
        return True
