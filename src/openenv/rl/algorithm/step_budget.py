"""The size of an optimizer step, measured by what it does to the policy instead of to the weights.

A learning rate that moves 0.1 million weights gently throws a pretrained model of 135 million into one corner within a
step. Here each step has a budget: the divergence KL(before, after) on the step's own tokens, in nats a token (the trust
region of TRPO, arXiv:1502.05477, with Adam's direction). A step beyond it is shortened by a line search along its own
direction. The length that was accepted is where the next step's search begins.

The same search holds the entropy of the actions: a step that would take it below its floor is shortened too, and the
weight of the entropy bonus follows the distance to the floor (the temperature of SAC, arXiv:1812.05905).
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

_TOLERANCE = 1.5
"""A step may measure up to this factor of its target."""
_MOST_TRIES = 4
_GROWTH, _FAST_GROWTH = 1.25, 2.0
"""How much longer the next step may be than one below its budget, or far below it."""
_LONGEST = 100.0
"""Longest step, in learning rates."""
_NOW, _LATER = 1.5, 0.08
"""How much the weight of the bonus follows the distance to the floor: at once, and lastingly (a controller with a
proportional and an integral part). With the second alone it swings between its limits, and the policy with it."""
_BONUS = (1e-3, 1.0)
"""Least and greatest lasting weight of the bonus, in units of the reward."""
_FLOOR_SLACK = 0.6
"""A step may end at this part of the floor: the bonus holds the floor, and the search prevents a fall through it."""
_MOST_FALL = 0.98
"""Below that, a step may leave this part of the entropy before it."""


@dataclass(frozen=True, slots=True)
class PolicyChange:
    """What a step did, measured on its own tokens."""

    kl: float
    """KL(before, after), nats a token, over the tokens that had a choice."""
    entropy_before: float
    """Entropy of the actions as a part of the greatest possible one, 0 to 1; NaN if no token was drawn among a few."""
    entropy_after: float


class StepBudget:
    """Limits the steps of an optimizer. It remembers the length of the last step and the weight of the bonus."""

    def __init__(self, target: float | None) -> None:
        """target: the budget of a step in nats a token; None: steps are not limited."""
        self.target = target
        self.length = 1.0
        """Length of the last step, in learning rates."""
        self.bonus = 0.3
        """Weight of the entropy bonus in the next step."""
        self.lasting_bonus = self.bonus
        """The part of it that distances of earlier steps have left."""
        self.first_entropy: float | None = None
        """Entropy of the actions before the first step, of which the floor is a part."""

    def state_dict(self) -> dict[str, float | None]:
        """What `load_state_dict` restores."""
        return {
            "length": self.length,
            "bonus": self.bonus,
            "lasting_bonus": self.lasting_bonus,
            "first_entropy": self.first_entropy,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a saved state."""
        self.length, self.first_entropy = state["length"], state["first_entropy"]
        self.bonus, self.lasting_bonus = state["bonus"], state["lasting_bonus"]

    @torch.no_grad()
    def limit(
        self, weights: Sequence[Tensor], before: Sequence[Tensor], measure: Callable[[], PolicyChange], *,
        scale: float, floor: float,
    ) -> PolicyChange:  # fmt: skip
        """Shorten the step from `before` to the present weights until it is within its budget. Returns what it did.

        Args:
            measure: compares the policy with that before the step.
            scale: part of the target that this step has, which a schedule lowers.
            floor: least entropy of the actions as a part of that before the first step; 0: none.
        """
        assert self.target is not None
        target = max(1e-6, self.target * scale)
        share, change = 1.0, measure()
        first = change
        if self.first_entropy is None and not math.isnan(first.entropy_before):
            self.first_entropy = first.entropy_before
        floor *= self.first_entropy or 0.0
        for _ in range(_MOST_TRIES):
            within, falls = _part(change, target), _falls(change, floor)
            if within >= 1.0 and not falls:
                break
            share *= within
            part = min(within, 0.5) if falls else within
            for present, old in zip(weights, before, strict=True):
                present.lerp_(old, 1.0 - part)
            change = measure()
        if share < 1.0:
            self.length *= share
        elif change.kl < target / _TOLERANCE:
            growth = _FAST_GROWTH if change.kl < target / 8 else _GROWTH
            self.length = min(self.length * growth, _LONGEST)
        self._adapt_bonus(first.entropy_before, floor)
        return change

    def _adapt_bonus(self, entropy: float, floor: float) -> None:
        if floor > 0 and not math.isnan(entropy):
            distance = max(-1.0, (floor - entropy) / floor)
            low, high = _BONUS
            self.lasting_bonus = min(high, max(low, self.lasting_bonus * math.exp(_LATER * distance)))
            self.bonus = self.lasting_bonus * math.exp(_NOW * distance)


def _part(change: PolicyChange, target: float) -> float:
    """The part of a step that is within its budget, if the divergence grows with the square of its length; 1 if all of
    it is."""
    if not math.isfinite(change.kl):
        return 0.1
    return math.sqrt(target / change.kl) if change.kl > _TOLERANCE * target else 1.0


def _falls(change: PolicyChange, floor: float) -> bool:
    """Whether a step takes the entropy of the actions far below its floor."""
    return change.entropy_after < min(_FLOOR_SLACK * floor, _MOST_FALL * change.entropy_before)
