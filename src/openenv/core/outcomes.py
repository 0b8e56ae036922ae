"""The outcome of an episode, and the return from which it is a success."""

import math
from numbers import Real
from typing import Any, Literal, TypeGuard

EpisodeOutcome = Literal["won", "push", "lost", "ended", "unparseable", "invalid"]
"""won: the return is a success. push: it is a draw. lost: it is neither. ended: the environment declares no success.
unparseable: the policy chose no legal action. invalid: the environment failed, which is no result of the policy."""
REFUSED = "the environment refused the action"
"""Begins the reason of an episode that such an action ended, and what a model is shown before a retry."""

SUCCESS_RETURN = "success_return"
"""The key in the metadata of an episode's first observation."""
ANY_POSITIVE = 1e-9
"""The success return of a game: any positive return is won, and 0 is a draw."""


def declared_success(first: Any) -> float | None:
    """The return from which an episode is a success, as its first observation declares it; None if it does not."""
    declared = (getattr(first, "metadata", None) or {}).get(SUCCESS_RETURN)
    return float(declared) if is_success_return(declared) else None


def is_success_return(value: object) -> TypeGuard[float]:
    """Whether a value is a return that an episode may have."""
    return isinstance(value, Real) and not isinstance(value, bool) and math.isfinite(value)


def outcome_of(total_reward: float | None, success_return: float | None) -> EpisodeOutcome:
    """The outcome of an episode that was played.

    total_reward: None where no step had a reward. success_return: None where none is declared.
    """
    if success_return is None:
        return "ended"
    total_reward = total_reward or 0.0
    if total_reward >= success_return:
        return "won"
    return "push" if success_return == ANY_POSITIVE and total_reward == 0 else "lost"
