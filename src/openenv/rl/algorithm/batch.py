"""Training batches: each distinct sequence once, and for every sampled token its position in them."""

import itertools
import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import torch
from torch import Tensor

from openenv.rl.algorithm.advantages import batch_advantages
from openenv.rl.algorithm.segment import Segment
from openenv.rl.algorithm.trajectory import Group, Trajectory
from openenv.rl.config import AdvantageName
from openenv.rl.models.devices import moved
from openenv.rl.models.images import Images
from openenv.rl.models.language_model import padded
from openenv.rl.models.reply_masks import Mask, is_choice, num_allowed

_TokenRow = tuple[bytes, Images]
"""The tokens of a sequence, as the bytes of their array, and its images."""
_Place = tuple[int, int, int, Mask | None]
"""A row, the column of a sampled token in it, the token, and its mask."""
_OF_TOKENS = ("targets", "position", "sequence", "episode", "advantages", "generator_logprobs")


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
    masks: tuple[Mask | None, ...] = ()  # [P] the tokens that each was drawn among; empty if all were drawn among all

    def split(self, max_tokens: int) -> Iterator[tuple[Tensor, "TrainingBatch"]]:
        """Parts of at most `max_tokens` tokens, but at least one sequence, each with the indices of its tokens, [n].

        Padding counts. Sequences are sorted by length, so that a part has little of it.
        """
        numbers = torch.arange(len(self.lengths))
        for start, end in self._borders(max_tokens):
            yield self._part((numbers >= start) & (numbers < end))

    def num_parts(self, max_tokens: int) -> int:
        """How many parts `split` makes."""
        return len(self._borders(max_tokens))

    def _borders(self, max_tokens: int) -> list[tuple[int, int]]:
        """The first sequence of each part, and the one after its last."""
        lengths, borders, start = self.lengths.tolist(), [], 0
        while start < len(lengths):
            end = start + max(1, max_tokens // lengths[start])
            borders.append((start, end))
            start = end
        return borders

    def share(self, number: int, of: int) -> tuple[Tensor, "TrainingBatch"]:
        """One of as many shares of the sequences, each with nearly as many tokens as the others, with the indices of
        its sampled tokens, [n]. It has no sequence where there are fewer than shares."""
        return self._part(torch.arange(len(self.lengths)) % of == number)

    def shortest(self) -> tuple[Tensor, "TrainingBatch"]:
        """The shortest sequence, with the indices of its sampled tokens, [n]."""
        return self._part(torch.arange(len(self.lengths)) == len(self.lengths) - 1)

    def sample(self, max_tokens: int) -> tuple[Tensor, "TrainingBatch"]:
        """Some of the sequences, evenly spread over their lengths, of about `max_tokens` tokens in all, with the
        indices of their sampled tokens, [n]."""
        stride = max(1, -(-int(self.lengths.sum()) // max_tokens))
        return self._part(torch.arange(len(self.lengths)) % stride == 0)

    def choice_sizes(self, most: int) -> Tensor:
        """Natural logarithm of the number of tokens that each sampled token was drawn among, [N]; 0 for one that was
        drawn among all or more than `most`, or had no choice."""
        if not self.masks:
            return torch.zeros(len(self.position), device=self.position.device)
        sizes = [0 if mask is None else num_allowed(mask) for mask in self.masks]
        of_positions = torch.tensor([math.log(size) if 1 < size <= most else 0.0 for size in sizes])
        return moved(of_positions, self.position.device)[self.position]

    def to(self, device: torch.device) -> "TrainingBatch":
        """The batch with what is known of its tokens on a device. The sequences and their positions stay on the
        processor, which looks at them before it runs a model."""
        values = {name: getattr(self, name) for name in _OF_TOKENS}
        return replace(self, **cast(dict[str, Any], {name: moved(value, device) for name, value in values.items()}))

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
            masks=tuple(itertools.compress(self.masks, here.tolist())),
        )
        return tokens, part


def make_batch(
    groups: Sequence[Group], advantage: AdvantageName, pad_id: int, oldest_version: int = -1
) -> TrainingBatch:
    """The valid episodes of `groups` as one batch. Tokens that a version before `oldest_version` sampled are left out.

    Raises ValueError if a group has fewer than two valid episodes.
    """
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
    return _assemble(segments, episodes, advantages, len(pairs), pad_id, oldest_version)


def _token_advantages(trajectory: Trajectory, values: Sequence[float]) -> list[float]:
    """The advantage of each sampled token. values: one for each turn, or a single one for all."""
    lengths = [length for segment in trajectory.segments for length in segment.reply_lengths]
    if len(values) == 1:
        return [values[0]] * sum(lengths)
    return [value for value, length in zip(values, lengths, strict=True) for _ in range(length)]


def _assemble(
    segments: list[Segment],
    episodes: list[int],
    advantages: list[float],
    num_episodes: int,
    pad_id: int,
    oldest_version: int,
) -> TrainingBatch:
    """advantages: of all sampled tokens. A token that was drawn among one, such as the end of a constrained reply, has
    nothing to learn and is left out, and so are what follows the last other one, and sequences without any other."""
    free = [_learned_columns(segment, oldest_version) for segment in segments]
    pairs = [_row(segment, columns) for segment, columns in zip(segments, free, strict=True)]
    learned = [pair for pair, columns in zip(pairs, free, strict=True) if columns] or pairs[:1]
    longest_first = sorted(dict.fromkeys(learned), key=lambda pair: -len(pair[0]))
    number_of = {pair: number for number, pair in enumerate(longest_first)}
    tokens = [tuple(np.frombuffer(ids, np.int32).tolist()) for ids, _ in longest_first]
    places: dict[_Place, int] = {}
    found: list[int] = []
    for pair, segment, columns in zip(pairs, segments, free, strict=True):
        row = number_of.get(pair, 0)
        for column, token in zip(columns, segment.token_ids[columns].tolist(), strict=True):
            mask = segment.masks[column] if segment.masks else None
            found.append(places.setdefault((row, column, token, mask), len(places)))
    ordered = sorted(places, key=lambda place: place[:3])
    rank = torch.empty(len(places), dtype=torch.long)
    rank[torch.tensor([places[place] for place in ordered], dtype=torch.long)] = torch.arange(len(places))
    is_free = torch.tensor(
        [column in kept for segment, kept in zip(segments, map(set, free), strict=True) for column in _drawn(segment)]
    )
    sequence = torch.repeat_interleave(torch.arange(len(segments)), torch.tensor([len(columns) for columns in free]))
    return TrainingBatch(
        input_ids=padded(tokens, pad_id),
        lengths=torch.tensor([len(ids) for ids in tokens]),
        rows=torch.tensor([row for row, *_ in ordered], dtype=torch.long),
        columns=torch.tensor([column - 1 for _, column, *_ in ordered], dtype=torch.long),
        targets=torch.tensor([token for _, _, token, _ in ordered], dtype=torch.long),
        position=rank[torch.tensor(found, dtype=torch.long)],
        sequence=sequence,
        episode=torch.tensor(episodes)[sequence],
        advantages=torch.tensor(advantages)[is_free],
        generator_logprobs=torch.from_numpy(
            np.concatenate([segment.logprobs[columns] for segment, columns in zip(segments, free, strict=True)])
        ),
        num_episodes=num_episodes,
        images=tuple(images for _, images in number_of) if any(segment.images for segment in segments) else (),
        masks=tuple(mask for *_, mask in ordered) if any(segment.masks for segment in segments) else (),
    )


def _drawn(segment: Segment) -> list[int]:
    """The columns of the tokens that the model sampled."""
    columns: list[int] = np.flatnonzero(segment.sampled).tolist()
    return columns


def _learned_columns(segment: Segment, oldest_version: int) -> list[int]:
    """The columns of those that were drawn among several, by a version that is not older."""
    drawn: list[int] = np.flatnonzero(segment.sampled & (segment.versions >= oldest_version)).tolist()
    return [column for column in drawn if is_choice(segment.masks[column])] if segment.masks else drawn


def _row(segment: Segment, free: Sequence[int]) -> _TokenRow:
    """The tokens that a model is run on: of a constrained segment those before the last free one."""
    end = max(free, default=1) if segment.masks else len(segment)
    return segment.token_ids[:end].tobytes(), segment.images
