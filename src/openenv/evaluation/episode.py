"""What is known of an episode once it has ended."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Literal

Outcome = Literal["won", "push", "lost", "unparseable", "invalid"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One episode as it ended."""

    seed: int
    """What it was reset with."""
    total_reward: float
    """The sum of its step rewards until it ended; of no meaning where the outcome is unparseable or invalid."""
    num_steps: int
    """Actions taken."""
    outcome: Outcome
    """won, push or lost by the sign of the reward; unparseable: the policy named no legal action; invalid: the
    environment failed, which says nothing about the policy."""
    reason: str | None = None
    """Why it is unparseable or invalid."""
    decisions: Counter[tuple[str, str]] = field(default_factory=Counter)
    """How often in which situation which reply was given, such as ("hard 16", "hit")."""
