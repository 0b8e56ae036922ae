"""The tokens of an episode: which of them the model sampled, by which weights, and with which log-probabilities."""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    from openenv.rl.models.images import Images
    from openenv.rl.models.reply_masks import Mask

_TYPES = (np.int32, np.bool_, np.float32, np.int32)  # of tokens, sampled, log-probabilities, versions


class Segment:
    """One sequence of prompt and reply tokens, as arrays that grow at their end.

    With a text interface of history `latest` every turn is a segment; with `full` an episode is one segment that grows.
    What was recorded at generation is never derived again.
    """

    __slots__ = ("_arrays", "_length", "images", "masks")

    def __init__(
        self,
        token_ids: Sequence[int] | NDArray[Any],
        sampled: Sequence[bool] | NDArray[Any],
        logprobs: Sequence[float] | NDArray[Any],
        versions: int | Sequence[int] | NDArray[Any],
        images: "Images" = (),
        masks: "Sequence[Mask | None]" = (),
    ) -> None:
        """
        Args:
            token_ids: [L].
            sampled: [L], true for a token that the model sampled, false for one of the prompt.
            logprobs: [L], the natural log-probability of each sampled token; 0.0 for tokens of the prompt.
            versions: [L], the policy version that sampled each token, or read it as a prompt; one for all.
            images: those that its tokens show, in their order.
            masks: [L], the tokens among which each was drawn; None: all. Empty if nothing restricted any.
        """
        self._length = len(token_ids)
        values = (token_ids, sampled, logprobs, np.broadcast_to(versions, self._length))
        self._arrays: list[NDArray[Any]] = [np.array(value, dtype) for value, dtype in zip(values, _TYPES, strict=True)]
        self.images = images
        self.masks = list(masks)

    def __len__(self) -> int:
        """Number of its tokens."""
        return self._length

    def __eq__(self, other: object) -> bool:
        """Whether all that was recorded is equal."""
        if not isinstance(other, Segment) or len(self) != len(other):
            return False
        pairs = zip(self._arrays, other._arrays, strict=True)
        same = all(np.array_equal(mine[: len(self)], others[: len(self)]) for mine, others in pairs)
        return same and (self.images, self.masks) == (other.images, other.masks)

    def __repr__(self) -> str:
        """Its size."""
        return f"Segment({len(self)} tokens, {len(self.sampled_ids)} sampled, from version {self.policy_version})"

    @property
    def token_ids(self) -> NDArray[np.int32]:
        """The tokens, [L]."""
        return self._arrays[0][: self._length]

    @property
    def sampled(self) -> NDArray[np.bool_]:
        """Whether the model sampled each, [L]."""
        return self._arrays[1][: self._length]

    @property
    def logprobs(self) -> NDArray[np.float32]:
        """The natural log-probability of each sampled token, [L]; 0.0 for tokens of the prompt."""
        return self._arrays[2][: self._length]

    @property
    def versions(self) -> NDArray[np.int32]:
        """The policy version that sampled each token, or read it as a prompt, [L]."""
        return self._arrays[3][: self._length]

    @property
    def policy_version(self) -> int:
        """The oldest policy version that sampled in this segment."""
        return int(self.versions[self.sampled].min())

    @property
    def sampled_ids(self) -> list[int]:
        """The sampled tokens, of all replies."""
        found: list[int] = self.token_ids[self.sampled].tolist()
        return found

    @property
    def prompts(self) -> list[tuple[int, ...]]:
        """The tokens shown before each reply in it."""
        return self._runs(sampled=False)

    @property
    def replies(self) -> list[tuple[int, ...]]:
        """The tokens of each reply in it. Shown tokens separate replies."""
        return self._runs(sampled=True)

    @property
    def reply_lengths(self) -> list[int]:
        """Number of tokens of each reply in it."""
        return [len(reply) for reply in self.replies]

    def _runs(self, *, sampled: bool) -> list[tuple[int, ...]]:
        borders = np.flatnonzero(np.diff(self.sampled)) + 1
        runs = np.split(self.token_ids, borders)
        first = bool(self.sampled[:1].any()) != sampled  # runs alternate
        return [tuple(run.tolist()) for run in runs[first::2] if len(run)]

    def extend(self, newer: "Segment") -> bool:
        """Append what a newer segment adds to this one. False, with nothing changed, if its prompt does not continue
        this one."""
        known = self._length
        if not np.array_equal(newer.token_ids[:known], self.token_ids) or newer.sampled[:known].any():
            return False
        if newer.images[: len(self.images)] != self.images:
            return False
        if self.masks or newer.masks:
            of_newer = newer.masks or [None] * len(newer)
            self.masks = self.masks or [None] * known
            self.masks += of_newer[known:]
        tails = [array[known : len(newer)] for array in newer._arrays]
        self._arrays = [_grown(array, known, tail) for array, tail in zip(self._arrays, tails, strict=True)]
        self._length, self.images = len(newer), newer.images
        return True


def _grown(array: NDArray[Any], length: int, tail: NDArray[Any]) -> NDArray[Any]:
    """An array with `tail` after its first `length` places: itself, or one with as much room again."""
    end = length + len(tail)
    if end > len(array):
        array = np.concatenate([array[:length], np.empty(end, array.dtype)])
    array[length:end] = tail
    return array
