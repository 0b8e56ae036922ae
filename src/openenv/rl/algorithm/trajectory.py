"""Recorded episodes: their tokens, which of them the model sampled, and the log-probabilities of these."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from openenv.core.outcomes import EpisodeOutcome

if TYPE_CHECKING:
    from openenv.rl.models.images import Images
    from openenv.rl.models.reply_masks import Mask

_ROUNDING = 1e-9
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
        return int(self.versions.min())

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


@dataclass(slots=True)
class Turn:
    """One decision of an episode, as text."""

    seen: str
    """The description of the observation."""
    reply: str
    situation: str | None
    action: str | None
    """The wording of the action that the reply names; None if it names no legal action: a retry followed, or the
    episode ended."""
    reward: float | None = None
    """The environment's reward for the action; None where it gave none."""
    is_cut_off: bool = False
    """Whether `max_res_tokens` ended the reply."""
    part_scores: dict[str, float] = field(default_factory=dict)
    """Scores of the parts of the environment's rubric, by path, where the observation's metadata has them."""


@dataclass(slots=True)
class Trajectory:
    """One episode. Its reward applies to all tokens that the model sampled in it, unless each turn has a return."""

    seed: int
    segments: list[Segment] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    game_return: float | None = None
    """Sum of the environment's rewards; None where it gave none."""
    success_return: float | None = None
    """The return from which the episode is a success; None where nothing declares it."""
    outcome: EpisodeOutcome = "invalid"
    reason: str = ""
    """Why the episode is invalid or unparseable, or was stopped."""
    is_stopped: bool = False
    """Whether a limit of turns or tokens ended it."""
    reward: float = 0.0
    """The value of the reward function; with `credit: step` that of the first turn."""
    turn_returns: list[float] = field(default_factory=list)
    """With `credit: step`: what was gained from each turn on. Otherwise empty."""

    def add_result(self, reward: float | None, metadata: Mapping[str, Any] | None) -> None:
        """Add the result of a reset or of the last turn's action.

        metadata: that of the observation, whose `rubric` may map the parts of a rubric to their scores.
        """
        if reward is not None:
            self.game_return = (self.game_return or 0.0) + float(reward)
        if not self.turns:
            return  # a reset's reward is no action's
        if reward is not None:
            self.turns[-1].reward = (self.turns[-1].reward or 0.0) + float(reward)
        scores = (metadata or {}).get("rubric")
        if isinstance(scores, Mapping):
            self.turns[-1].part_scores = {str(k): float(v) for k, v in scores.items() if _is_finite(v)}

    @property
    def valid(self) -> bool:
        """False if the environment failed: such an episode is counted and not trained on."""
        return self.outcome != "invalid"

    @property
    def policy_version(self) -> int:
        """The oldest policy version that sampled in this episode."""
        return min((segment.policy_version for segment in self.segments), default=0)


@dataclass(slots=True)
class Group:
    """Episodes that started from the same state."""

    index: int
    """The group's number in the run, which determines its seed."""
    trajectories: list[Trajectory]
    environment: int = 0
    """The number of the environment among those of the run."""

    @property
    def valid(self) -> list[Trajectory]:
        """The valid episodes, which may be trained on."""
        return [trajectory for trajectory in self.trajectories if trajectory.valid]

    @property
    def policy_version(self) -> int:
        """The oldest policy version that sampled in the group's valid episodes."""
        return min((trajectory.policy_version for trajectory in self.valid if trajectory.segments), default=0)

    @property
    def all_equal(self) -> bool:
        """Whether all valid episodes have the same reward in each turn, which makes every advantage zero."""
        values = [trajectory.turn_returns or [trajectory.reward] for trajectory in self.valid]
        return all(_equal([value[turn] for value in values if turn < len(value)]) for turn in range(_longest(values)))


def _longest(values: Sequence[Sequence[float]]) -> int:
    return max(map(len, values), default=0)


def _equal(values: Sequence[float]) -> bool:
    """Whether the numbers are equal but for the rounding of sums."""
    return max(values) - min(values) <= _ROUNDING * max(1.0, *map(abs, values))


def _is_finite(value: object) -> bool:
    return isinstance(value, Real) and math.isfinite(value)
