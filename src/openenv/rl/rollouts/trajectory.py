"""Recorded episodes: their tokens, which of them the model sampled, and the log-probabilities of these."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from openenv.evaluation.intervals import EpisodeOutcome


@dataclass(slots=True)
class Segment:
    """One sequence of prompt and reply tokens.

    With a text interface of history `latest` every turn is a segment; with `full` an episode is one segment that grows.
    `sampled` and `logprobs` are recorded at generation and never derived again.
    """

    token_ids: tuple[int, ...]
    sampled: tuple[bool, ...]
    """True for a token that the model sampled, False for a token of the prompt."""
    logprobs: tuple[float, ...]
    """Natural log-probability of each sampled token; 0.0 for tokens of the prompt."""
    policy_version: int
    """The oldest policy version that sampled in this segment."""

    def extended(self, shown: Sequence[int], written: "Segment") -> "Segment":
        """This segment, followed by `shown` tokens of the prompt and the tokens sampled after them."""
        gap = len(shown)
        return Segment(
            token_ids=(*self.token_ids, *shown, *written.token_ids),
            sampled=(*self.sampled, *(False,) * gap, *written.sampled),
            logprobs=(*self.logprobs, *(0.0,) * gap, *written.logprobs),
            policy_version=min(self.policy_version, written.policy_version),
        )


@dataclass(slots=True)
class Turn:
    """One decision of an episode, as text."""

    seen: str
    """The description of the observation."""
    reply: str
    situation: str | None
    action: str | None
    """The wording of the action that the reply names; None if it names no legal action."""


@dataclass(slots=True)
class Trajectory:
    """One episode. Its reward applies to all tokens that the model sampled in it."""

    seed: int
    segments: list[Segment] = field(default_factory=list)
    turns: list[Turn] = field(default_factory=list)
    game_return: float = 0.0
    """Sum of the environment's rewards."""
    outcome: EpisodeOutcome = "invalid"
    reason: str = ""
    """Why the episode is invalid or unparseable."""
    reward: float = 0.0
    """The value of the reward function."""

    @property
    def valid(self) -> bool:
        """False if the environment failed: such an episode is counted and not trained on."""
        return self.outcome != "invalid"

    @property
    def policy_version(self) -> int:
        """The oldest policy version that sampled in this episode."""
        return min((segment.policy_version for segment in self.segments), default=0)

    @property
    def num_sampled(self) -> int:
        """Number of tokens that the model sampled."""
        return sum(sum(segment.sampled) for segment in self.segments)


@dataclass(slots=True)
class Group:
    """Episodes that started from the same state."""

    index: int
    """The group's number in the run, which determines its seed."""
    trajectories: list[Trajectory]

    @property
    def valid(self) -> list[Trajectory]:
        """The valid episodes, which may be trained on."""
        return [trajectory for trajectory in self.trajectories if trajectory.valid]

    @property
    def policy_version(self) -> int:
        """The oldest policy version that sampled in the group's valid episodes."""
        return min((trajectory.policy_version for trajectory in self.valid), default=0)

    @property
    def all_equal(self) -> bool:
        """Whether all valid episodes have the same reward, which makes every advantage zero."""
        return len({trajectory.reward for trajectory in self.valid}) <= 1
