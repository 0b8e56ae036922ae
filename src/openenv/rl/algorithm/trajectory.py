"""Recorded episodes and groups of them."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import TYPE_CHECKING, Any

from openenv.core.outcomes import EpisodeOutcome

if TYPE_CHECKING:
    from openenv.rl.algorithm.segment import Segment  # needs numpy, which reading a run does not

_ROUNDING = 1e-9


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
    segments: "list[Segment]" = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    game_return: float | None = None
    """Sum of the environment's rewards; None where it gave none."""
    success_return: float | None = None
    """The return from which the episode is a success; None where nothing declares it."""
    outcome: EpisodeOutcome = "invalid"
    reason: str = ""
    """Why the episode is invalid or unparseable, or was stopped."""
    has_lost_server: bool = False
    """Whether it is invalid because its session, or the server, was gone."""
    is_stopped: bool = False
    """Whether a limit of turns or tokens ended it."""
    reward: float = 0.0
    """The value of the reward function; with `credit: step` that of the first turn."""
    is_of_program: bool = False
    """Whether an agent's program called the model as it liked: `turns` are its actions, not the model's replies."""
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
