"""Tables of daily prices: generated ones with the statistics of real stocks."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np

Floats = np.ndarray[Any, np.dtype[np.float64]]

DAYS_A_YEAR = 252
_ARCH, _GARCH = 0.08, 0.90
"""Weights of yesterday's squared shock and of yesterday's variance in today's variance."""
_DEGREES = 6
"""Degrees of freedom of the Student-t shocks. With 5 or fewer the fourth moment of the returns would be infinite."""
_BURN_IN = 250
"""Days before the first price, after which the variance has forgotten its start."""
_TREND_DECAY = 0.97
"""Autocorrelation of the trends from day to day: they last about a month."""
_VOLATILITY_SPREAD = (0.7, 1.4)
_FIRST_PRICE = (20.0, 200.0)


@dataclass(frozen=True, eq=False)
class Prices:
    """Closing prices of some symbols, day by day."""

    symbols: tuple[str, ...]
    closes: Floats
    """[days, symbols], all above 0."""
    dates: tuple[str, ...] | None = None
    """ISO date of each day, ascending; None for generated prices."""


def generate_prices(
    seed: int,
    num_days: int,
    num_symbols: int,
    *,
    volatility: float,
    drift: float,
    correlation: float,
    momentum: float,
) -> Prices:
    """Prices with fat tails, clusters of volatility and a common factor. Equal arguments give equal prices.

    The factor and each symbol's own part follow a GARCH(1,1) process with Student-t shocks.

    Args:
        volatility, drift: of log returns, a year; each symbol has 0.7 to 1.4 times the volatility.
        correlation: of two symbols' returns.
        momentum: standard deviation of a symbol's trend as a share of that of its daily returns, which momentum does
            not change.
    """
    rng = np.random.default_rng(seed % (1 << 64))
    length = _BURN_IN + num_days - 1
    shocks = rng.standard_t(_DEGREES, (num_symbols + 1, length)) * math.sqrt((_DEGREES - 2) / _DEGREES)
    factor, *own = (_garch(row) for row in shocks)
    trends = [_trend(row) for row in rng.standard_normal((num_symbols, length))]
    returns = math.sqrt(correlation) * factor + math.sqrt(1 - correlation) * np.array(own)
    returns = math.sqrt(1 - momentum**2) * returns + momentum * np.array(trends)
    daily = volatility / math.sqrt(DAYS_A_YEAR) * rng.uniform(*_VOLATILITY_SPREAD, (num_symbols, 1))
    steps = (drift / DAYS_A_YEAR + daily * returns)[:, _BURN_IN:]
    first = np.log(rng.uniform(*_FIRST_PRICE, (num_symbols, 1)))
    closes = np.exp(np.concatenate([first, first + np.cumsum(steps, axis=1)], axis=1)).T
    return Prices(tuple(f"S{number + 1}" for number in range(num_symbols)), np.ascontiguousarray(closes))


def _garch(shocks: Floats) -> Floats:
    """Returns of variance 1 whose own variance follows the squared shocks before."""
    growth: Sequence[float] = (_ARCH * shocks**2 + _GARCH).tolist()
    rest = 1 - _ARCH - _GARCH
    variances = list(accumulate(growth[:-1], lambda variance, grown: rest + grown * variance, initial=1.0))
    return np.sqrt(variances) * shocks


def _trend(noise: Floats) -> Floats:
    """A slowly changing number of variance 1."""
    scaled: Sequence[float] = (math.sqrt(1 - _TREND_DECAY**2) * noise).tolist()
    return np.array(list(accumulate(scaled[1:], lambda level, new: _TREND_DECAY * level + new, initial=noise[0])))
