"""The word at the end of a transcript of random play, for the return of its episode."""

from bisect import bisect_left
from collections.abc import Mapping, Sequence

_MOST_VALUES = 5
"""Up to so many different returns each have their own word."""
_NUM_BINS = 8


def outcome_labels(returns: Mapping[float, int]) -> dict[float, str]:
    """The label of each return. returns: each one with its number of episodes.

    `won`, `push` and `lost`, by the sign, where they distinguish all returns. Otherwise up to five different returns
    have a label each, and more are divided into about eight bins that equally many episodes have reached.
    """
    signs = {value: "won" if value > 0 else "lost" if value < 0 else "push" for value in returns}
    if len(set(signs.values())) == len(returns):
        return signs
    if len(returns) <= _MOST_VALUES:
        return {value: f"return={value:g}" for value in returns}
    bins = _bins(returns)
    highest = [part[-1] for part in bins]
    labels = [f"return={part[0]:g}" if len(part) == 1 else f"return={part[0]:g}..{part[-1]:g}" for part in bins]
    return {value: labels[bisect_left(highest, value)] for value in returns}


def _bins(returns: Mapping[float, int]) -> list[Sequence[float]]:
    """The different returns, in order, in bins of about equally many episodes. A frequent return has its own bin."""
    share, frequent = _fair_share(returns)
    bins: list[list[float]] = [[]]
    inside = 0.0
    for value in sorted(returns):
        if bins[-1] and (value in frequent or inside + returns[value] / 2 > share):
            bins.append([])
            inside = 0.0
        bins[-1].append(value)
        inside = share if value in frequent else inside + returns[value]
    return list(bins)


def _fair_share(returns: Mapping[float, int]) -> tuple[float, set[float]]:
    """The number of episodes in a bin, and the returns that have more by themselves."""
    left, num_bins = sum(returns.values()), _NUM_BINS
    frequent: set[float] = set()
    for value, count in sorted(returns.items(), key=lambda pair: -pair[1]):
        if num_bins == 1 or count <= left / num_bins:
            break
        frequent.add(value)
        left, num_bins = left - count, num_bins - 1
    return left / num_bins, frequent
