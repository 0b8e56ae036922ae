"""The keywords of `reset`, checked."""

import bisect
import difflib
import math
from collections.abc import Mapping, Sequence
from dataclasses import MISSING, asdict, dataclass, fields
from datetime import date
from random import Random
from typing import Any

_MARKET = ("num_symbols", "volatility", "drift", "correlation", "momentum")
_FILE = ("symbols", "first_date", "last_date")
_DEFAULT_DAYS = 250


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What an episode plays. Raises ValueError, naming the field, for a wrong value."""

    days: int | None = None
    """Steps of the episode; None: 250, or as many as the file has."""
    window: int = 20
    """Days of returns that an observation has."""
    initial_cash: float = 100_000.0
    commission: float = 0.001
    """Share of the traded value."""
    slippage: float = 0.0005
    """Purchases are filled at so much more than the closing price, sales at so much less."""
    max_shares: float | None = None
    """Most shares of a symbol that one order buys or sells; None: no limit."""
    num_symbols: int = 3
    """Generated symbols."""
    volatility: float = 0.3
    """Standard deviation of a generated symbol's log returns, a year."""
    drift: float = 0.06
    """Mean of a generated symbol's log returns, a year."""
    correlation: float = 0.35
    """Of the returns of two generated symbols."""
    momentum: float = 0.0
    """Standard deviation of the trend of generated prices, as a share of that of daily returns."""
    symbols: tuple[str, ...] | None = None
    """Symbols of the file that are played; None: all."""
    first_date: str | None = None
    """The earliest date of the file that may be the first day."""
    last_date: str | None = None
    """The latest date of the file that may be the last day."""

    def __post_init__(self) -> None:
        if self.days is not None:
            _require_whole("days", self.days, 1, 10_000)
        _require_whole("window", self.window, 1, 250)
        _require_whole("num_symbols", self.num_symbols, 1, 20)
        _require_number("initial_cash", self.initial_cash, 0.01, 1e12)
        _require_number("commission", self.commission, 0.0, 0.2)
        _require_number("slippage", self.slippage, 0.0, 0.2)
        if self.max_shares is not None:
            _require_number("max_shares", self.max_shares, 1e-6, 1e12)
        _require_number("volatility", self.volatility, 0.0, 2.0)
        _require_number("drift", self.drift, -2.0, 2.0)
        _require_number("correlation", self.correlation, 0.0, 1.0)
        _require_number("momentum", self.momentum, 0.0, 1.0)
        for name in ("first_date", "last_date"):
            _require_date(name, getattr(self, name))
        if self.symbols is not None:
            is_list = isinstance(self.symbols, list | tuple) and all(isinstance(one, str) for one in self.symbols)
            if not is_list or not self.symbols or len(set(self.symbols)) != len(self.symbols):
                raise ValueError(f"symbols={self.symbols!r:.200}: expected a list of different symbols of the file.")
            object.__setattr__(self, "symbols", tuple(self.symbols))

    @classmethod
    def from_keywords(cls, keywords: Mapping[str, Any], *, has_file: bool) -> "Settings":
        """The settings of a reset. A keyword of null has its default.

        Raises ValueError for an unknown keyword, a wrong value, and a keyword of generated prices where the server
        plays those of a file, or the reverse.
        """
        known = [field.name for field in fields(cls)]
        given = {name: value for name, value in keywords.items() if value is not None}
        for name in given:
            if name not in known:
                near = difflib.get_close_matches(name, known, n=1)
                hint = f" Did you mean {near[0]!r}?" if near else ""
                raise ValueError(f"reset argument {name!r} is not known.{hint} Known: seed, {', '.join(known)}.")
            if name in (_MARKET if has_file else _FILE):
                plays = "the prices of a file" if has_file else "generated prices"
                raise ValueError(f"{name}: the server plays {plays}. Leave {name} out, or start it the other way.")
        return cls(**given)

    @classmethod
    def defaults(cls) -> dict[str, Any]:
        """The default of each keyword."""
        return {field.name: field.default for field in fields(cls) if field.default is not MISSING}

    def as_dict(self) -> dict[str, Any]:
        """The keywords, as JSON."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}


def place_in_file(settings: Settings, dates: Sequence[str], rng: Random) -> tuple[int, int]:
    """The row of the first day of an episode, and its number of steps. The rows before give the first returns.

    Raises ValueError where the file has too few days between the dates.
    """
    earliest = max(settings.window, bisect.bisect_left(dates, settings.first_date or ""))
    latest = len(dates) - 1
    if settings.last_date is not None:
        latest = bisect.bisect_right(dates, settings.last_date) - 1
    most = latest - earliest
    days = min(_DEFAULT_DAYS, most) if settings.days is None else settings.days
    if most < 1 or days > most:
        raise ValueError(
            f"days={settings.days}, window={settings.window}, first_date={settings.first_date}, last_date="
            f"{settings.last_date}: the file has room for {max(0, most)} days, from {dates[0]} to {dates[-1]} with the "
            "window before them. Choose fewer days, a smaller window, or other dates."
        )
    return rng.randint(earliest, latest - days), days


def generated_days(settings: Settings) -> int:
    """Steps of an episode of generated prices."""
    return _DEFAULT_DAYS if settings.days is None else settings.days


def tasks() -> dict[str, dict[str, Any]]:
    """Reset keywords of the tasks of generated prices, by name."""
    return {
        "one_stock": {"num_symbols": 1},
        "portfolio": {},
        "twenty_stocks": {"num_symbols": 20},
        "momentum": {"momentum": 0.4},
        "momentum_one_stock": {"momentum": 0.4, "num_symbols": 1},
        "momentum_short": {"momentum": 0.8, "num_symbols": 2, "days": 20},
    }


def _require_whole(name: str, value: Any, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"{name}={value!r:.80}: expected a whole number from {low} to {high}.")


def _require_number(name: str, value: Any, low: float, high: float) -> None:
    is_number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    if not is_number or not low <= value <= high:
        raise ValueError(f"{name}={value!r:.80}: expected a number from {low:g} to {high:g}.")


def _require_date(name: str, value: Any) -> None:
    if value is None:
        return
    try:
        is_date = isinstance(value, str) and date.fromisoformat(value).isoformat() == value
    except ValueError:
        is_date = False
    if not is_date:
        raise ValueError(f"{name}={value!r:.80}: expected a date such as '2024-12-31'.")
