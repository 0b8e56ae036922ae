"""Training batches: each distinct sequence once, and for every sampled token its position in them."""

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, cast

import torch
from torch import Tensor

from openenv.rl.config import AdvantageName
from openenv.rl.models.images import Images
from openenv.rl.models.language_model import padded
from openenv.rl.rollouts.rewards import batch_advantages
from openenv.rl.rollouts.trajectory import Group, Segment, Trajectory

TokenRow = tuple[tuple[int, ...], tuple[bool, ...], Images]


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingBatch:
    """U distinct sequences of length L, P sampled positions in them, N sampled tokens of B episodes.

    Episodes of a game repeat each other, so N is several times P. The model runs on the distinct sequences only;
    autograd sums the gradients of the tokens that share a position, so the result is the same.
    """

    input_ids: Tensor  # [U, L], padded on the right, the longest first
    lengths: Tensor  # [U] tokens of each sequence
    rows: Tensor  # [P] the row of each sampled position
    columns: Tensor  # [P] the column before it, whose logits predict the sampled token
    targets: Tensor  # [P] the token sampled there
    position: Tensor  # [N] which of the P positions each token is
    sequence: Tensor  # [N] number of its segment
    episode: Tensor  # [N] number of its episode
    advantages: Tensor  # [N] its episode's advantage, or its turn's
    generator_logprobs: Tensor  # [N] as recorded when it was sampled
    num_episodes: int
    images: tuple[Images, ...] = ()  # [U] of each sequence; empty if none has any

    def split(self, max_tokens: int) -> Iterator[tuple[Tensor, "TrainingBatch"]]:
        """Parts of at most `max_tokens` tokens, but at least one sequence, each with the indices of its tokens, [n].

        Padding counts. Sequences are sorted by length, so that a part has little of it.
        """
        lengths = self.lengths.tolist()
        start, numbers = 0, torch.arange(len(lengths))
        while start < len(lengths):
            end = start + max(1, max_tokens // lengths[start])
            yield self._part((numbers >= start) & (numbers < end))
            start = end

    def to(self, device: torch.device) -> "TrainingBatch":
        """The batch with its tensors on a device."""
        values: dict[str, Any] = {item.name: getattr(self, item.name) for item in fields(self)}
        tensors = {name: value.to(device) for name, value in values.items() if isinstance(value, Tensor)}
        return replace(self, **cast(dict[str, Any], tensors))

    def containing(self, wanted: Tensor) -> tuple[Tensor, "TrainingBatch"]:
        """The sequences with a wanted token, with the indices of their tokens in the batch, [n]. wanted: [N]."""
        kept = torch.zeros(len(self.input_ids), dtype=torch.bool)
        return self._part(kept.index_fill(0, self.rows[self.position][wanted], True))

    def _part(self, kept: Tensor) -> tuple[Tensor, "TrainingBatch"]:
        """Some sequences, [U] bool, without the padding that they do not need, with the indices of their tokens."""
        lengths, here = self.lengths[kept], kept[self.rows]
        tokens = kept[self.rows[self.position]].nonzero()[:, 0]
        part = replace(
            self,
            input_ids=self.input_ids[kept, : int(lengths[0]) if len(lengths) else 0],
            lengths=lengths,
            rows=(kept.cumsum(0) - 1)[self.rows[here]],
            columns=self.columns[here],
            targets=self.targets[here],
            position=(here.cumsum(0) - 1)[self.position[tokens]],
            sequence=self.sequence[tokens],
            episode=self.episode[tokens],
            advantages=self.advantages[tokens],
            generator_logprobs=self.generator_logprobs[tokens],
            images=tuple(itertools.compress(self.images, kept.tolist())),
        )
        return tokens, part


def make_batch(groups: Sequence[Group], advantage: AdvantageName, pad_id: int) -> TrainingBatch:
    """The valid episodes of `groups` as one batch. Raises ValueError if a group has fewer than two of them."""
    segments: list[Segment] = []
    episodes: list[int] = []
    advantages: list[float] = []
    of_groups = batch_advantages(advantage, groups)
    pairs = [
        pair for group, values in zip(groups, of_groups, strict=True) for pair in zip(group.valid, values, strict=True)
    ]
    for number, (trajectory, values) in enumerate(pairs):
        segments.extend(trajectory.segments)
        episodes.extend([number] * len(trajectory.segments))
        advantages.extend(_token_advantages(trajectory, values))
    return _assemble(segments, episodes, advantages, len(pairs), pad_id)


def _token_advantages(trajectory: Trajectory, values: Sequence[float]) -> list[float]:
    """The advantage of each sampled token. values: one for each turn, or a single one for all."""
    lengths = [length for segment in trajectory.segments for length in segment.reply_lengths]
    if len(values) == 1:
        return [values[0]] * sum(lengths)
    return [value for value, length in zip(values, lengths, strict=True) for _ in range(length)]


def _assemble(
    segments: list[Segment], episodes: list[int], advantages: list[float], num_episodes: int, pad_id: int
) -> TrainingBatch:
    pairs: list[TokenRow] = [(segment.token_ids, segment.sampled, segment.images) for segment in segments]
    longest_first = sorted(dict.fromkeys(pairs), key=lambda pair: -len(pair[0]))
    distinct = {pair: number for number, pair in enumerate(longest_first)}
    row_of = [distinct[pair] for pair in pairs]
    sampled = [[i for i, is_sampled in enumerate(mask) if is_sampled] for _, mask, _ in distinct]
    first = torch.tensor([0, *map(len, sampled)]).cumsum(0)
    counts = torch.tensor([len(sampled[row]) for row in row_of])
    tokens_of = torch.repeat_interleave(torch.arange(len(segments)), counts)
    begin = counts.cumsum(0) - counts
    offset = torch.arange(int(counts.sum())) - begin[tokens_of]
    rows = torch.repeat_interleave(torch.arange(len(distinct)), torch.tensor([len(s) for s in sampled]))
    columns = torch.tensor([i for positions in sampled for i in positions])
    input_ids = padded([ids for ids, *_ in distinct], pad_id)
    return TrainingBatch(
        input_ids=input_ids,
        lengths=torch.tensor([len(ids) for ids, *_ in distinct]),
        rows=rows,
        columns=columns - 1,
        targets=input_ids[rows, columns],
        position=first[torch.tensor(row_of)][tokens_of] + offset,
        sequence=tokens_of,
        episode=torch.tensor(episodes)[tokens_of],
        advantages=torch.tensor(advantages),
        generator_logprobs=torch.tensor(
            [lp for s in segments for lp, is_sampled in zip(s.logprobs, s.sampled, strict=True) if is_sampled]
        ),
        num_episodes=num_episodes,
        images=tuple(images for *_, images in distinct) if any(segment.images for segment in segments) else (),
    )
