"""An episode as the trainer needs it: the tokens, which of them the model sampled, and how likely it found them."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["won", "lost", "push", "unparseable", "invalid"]


@dataclass(slots=True)
class Segment:
    """One sequence of tokens that the model saw and wrote.

    With a text interface of history `latest` every decision is a segment of its own; with `full` an episode is one
    segment that grows. `sampled` and `logprobs` were recorded at generation and are never derived again.
    """

    token_ids: tuple[int, ...]
    sampled: tuple[bool, ...]
    """Whether the model sampled the token (True) or was shown it."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each sampled token; 0.0 for shown ones."""
    policy_version: int
    """The oldest weights that wrote in this segment."""

    def extended(self, shown: Sequence[int], written: "Segment") -> "Segment":
        """This segment, then `shown` tokens, then what the model wrote after them."""
        gap = len(shown)
        return Segment(
            token_ids=(*self.token_ids, *shown, *written.token_ids),
            sampled=(*self.sampled, *(False,) * gap, *written.sampled),
            logprobs=(*self.logprobs, *(0.0,) * gap, *written.logprobs),
            policy_version=min(self.policy_version, written.policy_version),
        )


@dataclass(slots=True)
class Turn:
    """One decision as a person reads it."""

    seen: str
    reply: str
    situation: str | None
    action: str | None
    """The wording of the action that the reply names; None when it names no legal one."""


@dataclass(slots=True)
class Trajectory:
    """One episode. Its reward belongs to all tokens that the model sampled in it."""

    seed: int
    segments: list[Segment] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    game_return: float = 0.0
    """Sum of the environment's rewards."""
    outcome: Outcome = "invalid"
    reason: str = ""
    """Why the episode is invalid or unparseable."""
    reward: float = 0.0
    """What the reward function made of it."""

    @property
    def valid(self) -> bool:
        """False when the environment failed: the episode is left out of everything but the count of such episodes."""
        return self.outcome != "invalid"

    @property
    def policy_version(self) -> int:
        """The oldest weights that wrote in this episode."""
        return min((segment.policy_version for segment in self.segments), default=0)

    @property
    def num_sampled(self) -> int:
        """Tokens that the model sampled."""
        return sum(sum(segment.sampled) for segment in self.segments)


@dataclass(slots=True)
class Group:
    """Episodes that started from one identical state."""

    index: int
    """The group's number in the run; its seed follows from it."""
    trajectories: list[Trajectory]

    @property
    def valid(self) -> list[Trajectory]:
        """The episodes that may be learned from."""
        return [trajectory for trajectory in self.trajectories if trajectory.valid]

    @property
    def policy_version(self) -> int:
        """The oldest weights that wrote in the group's valid episodes."""
        return min((trajectory.policy_version for trajectory in self.valid), default=0)

    @property
    def all_equal(self) -> bool:
        """Whether all valid episodes have the same reward, so that none has an advantage."""
        return len({trajectory.reward for trajectory in self.valid}) <= 1
