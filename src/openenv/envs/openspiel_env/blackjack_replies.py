"""How often blackjack's hit was the reply, by the total of the hand."""

import math
from collections.abc import Mapping

Decisions = Mapping[str, Mapping[str, int]]
"""How often each action was chosen in each situation: `{"hard 16": {"hit": 12, "stand": 3}}`."""


def reply_share(decisions: Decisions, reply: str, kind: str, totals: range) -> float:
    """The share of `reply` in situations such as `hard 16`, over all `totals`. NaN if none of them occurred.

    Example: `reply_share(decisions, "hit", "hard", range(4, 12))` is P(hit) for hard totals up to 11.
    """
    counts = [decisions.get(f"{kind} {total}", {}) for total in totals]
    met = sum(sum(replies.values()) for replies in counts)
    return sum(replies.get(reply, 0) for replies in counts) / met if met else math.nan


def remark(decisions: Decisions) -> str | None:
    """How the probability of a hit depends on the cards; None for decisions of another game."""
    low, high = (reply_share(decisions, "hit", "hard", totals) for totals in (range(4, 12), range(17, 22)))
    if math.isnan(low):
        return None
    return f"P(hit) is {low:.3f} for hard totals up to 11 and {high:.3f} from hard 17"
