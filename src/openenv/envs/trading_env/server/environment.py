"""The trading environment."""

import json
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from random import Random
from typing import Any
from uuid import uuid4

import numpy as np

from openenv.core.env_server.interfaces import Environment
from openenv.envs.trading_env.models import TradingAction, TradingObservation, TradingState
from openenv.envs.trading_env.server.portfolio import Costs, Portfolio, max_drawdown, sharpe
from openenv.envs.trading_env.server.prices import Floats, Prices, generate_prices
from openenv.envs.trading_env.server.settings import Settings, generated_days, place_in_file
from openenv.formats.json_text import json_text

_SEED_BITS = 31
_ROUNDING = 1e-6
"""By so much the weights may add up to more than 1."""
_MOST_IN_MENU = 20
"""With more symbols the ready-made orders are hold and cash only."""


@dataclass
class _Episode:
    """An episode: everything but the day, the account and the curve follows from seed and settings."""

    seed: int
    settings: Settings
    prices: Prices
    first_row: int
    days: int
    portfolio: Portfolio
    episode_id: str
    equities: list[float]
    """After the close of each day so far."""
    menu: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    """Name and fields of each ready-made order."""

    @property
    def day(self) -> int:
        """Days since the first observation."""
        return len(self.equities) - 1

    @property
    def closes(self) -> Floats:
        """Closing prices of today."""
        today: Floats = self.prices.closes[self.first_row + self.day]
        return today

    def benchmark(self) -> list[float]:
        """The equity of equal weights, bought at the close of day 1 and held, up to today."""
        rows = slice(self.first_row + 1, self.first_row + self.day + 1)
        return [self.settings.initial_cash, *self._held(self.prices.closes[rows]).tolist()]

    def benchmark_today(self) -> float:
        """The last of the benchmark's curve."""
        return self.settings.initial_cash if self.day == 0 else float(self._held(self.closes))

    def _held(self, closes: Floats) -> Floats:
        """The benchmark's equity at closing prices of day 1 or later, [..., symbols]."""
        bought = self.settings.initial_cash / (1 + _costs(self.settings).of_purchase)
        held: Floats = bought * (closes / self.prices.closes[self.first_row + 1]).mean(axis=-1)
        return held


class TradingEnvironment(Environment[TradingAction, TradingObservation, TradingState]):
    """Trade a portfolio at daily prices. An order is given after a close and filled at the next day's close.

    The reward is the log return of the equity from close to close, after commission and slippage.
    """

    execution = "inline"

    def __init__(self, prices: Prices | None = None) -> None:
        """prices: those that are played; None: generated ones, which differ from episode to episode."""
        self._file = prices
        self._episode: _Episode | None = None

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> TradingObservation:
        """Start an episode with cash only. The keywords are the fields of `Settings`.

        seed: of the generated prices, or of the place in the file. Raises ValueError for a wrong keyword or value; the
        current episode then continues.
        """
        settings = Settings.from_keywords(kwargs, has_file=self._file is not None)
        seed = secrets.randbits(_SEED_BITS) if seed is None else seed
        self._episode = self._make_episode(seed, settings, episode_id or str(uuid4()))
        source = "generated" if self._file is None else "file"
        return self._observe(reward=None, metadata={"seed": seed, "source": source})

    def execution_for(self, verb: str, keywords: Mapping[str, Any]) -> Any:
        """Generate long tables in a thread."""
        days, symbols = keywords.get("days"), keywords.get("num_symbols")
        is_long = isinstance(days, int) and days > 1000
        is_wide = isinstance(symbols, int) and symbols > 5
        return "thread" if is_long or is_wide else "inline"

    def step(self, action: TradingAction, timeout_s: float | None = None, **kwargs: Any) -> TradingObservation:
        """Go to the next close and fill the order there.

        Raises ValueError for an unknown symbol, a weight below 0, or weights of more than 1 in all; nothing then
        happens.
        """
        episode = self._started()
        weights = None if action.weights is None else _checked_weights(action.weights, episode.prices.symbols)
        closes = episode.prices.closes[episode.first_row + episode.day + 1]
        if weights is not None:
            episode.portfolio.rebalance(closes, weights, episode.settings.max_shares)
        episode.equities.append(episode.portfolio.equity(closes))
        return self._observe(reward=math.log(episode.equities[-1] / episode.equities[-2]))

    def save_state(self) -> bytes:
        """The seed, the settings, the account and the curve. Raises ValueError before the first reset."""
        episode = self._started()
        account = episode.portfolio
        saved = {
            "seed": episode.seed,
            "settings": episode.settings.as_dict(),
            "episode_id": episode.episode_id,
            "equities": episode.equities,
            "account": [account.cash, account.shares.tolist(), account.costs_paid, account.turnover],
        }
        return json_text(saved).encode()

    def load_state(self, snapshot: bytes) -> None:
        """Continue a saved episode."""
        saved = json.loads(snapshot)
        episode = self._make_episode(saved["seed"], Settings(**saved["settings"]), saved["episode_id"])
        episode.equities = saved["equities"]
        account = episode.portfolio
        account.cash, shares, account.costs_paid, account.turnover = saved["account"]
        account.shares = np.array(shares)
        self._episode = episode

    @property
    def state(self) -> TradingState:
        """The account, and how it compares with its benchmark, up to today."""
        episode = self._episode
        source = "generated" if self._file is None else "file"
        if episode is None:
            return TradingState(source=source)
        account, symbols, benchmark = episode.portfolio, episode.prices.symbols, episode.benchmark()
        return TradingState(
            episode_id=episode.episode_id,
            step_count=episode.day,
            source=source,
            symbols=list(symbols),
            days=episode.days,
            cash=account.cash,
            holdings=dict(zip(symbols, account.shares.tolist(), strict=True)),
            equity=episode.equities[-1],
            costs=account.costs_paid,
            turnover=account.turnover,
            sharpe=sharpe(episode.equities),
            max_drawdown=max_drawdown(episode.equities),
            benchmark_equity=benchmark[-1],
            benchmark_sharpe=sharpe(benchmark),
            benchmark_max_drawdown=max_drawdown(benchmark),
        )

    def _started(self) -> _Episode:
        if self._episode is None:
            raise ValueError("there is no episode yet. Call reset() first.")
        return self._episode

    def _make_episode(self, seed: int, settings: Settings, episode_id: str) -> _Episode:
        """A new episode on its first day."""
        if self._file is None:
            first_row, days = settings.window, generated_days(settings)
            market = {name: getattr(settings, name) for name in ("volatility", "drift", "correlation", "momentum")}
            prices = generate_prices(seed, first_row + days + 1, settings.num_symbols, **market)
        else:
            prices = _chosen(self._file, settings.symbols)
            first_row, days = place_in_file(settings, prices.dates or (), Random(seed))
        portfolio = Portfolio(settings.initial_cash, len(prices.symbols), _costs(settings))
        menu = _menu(prices.symbols)
        start = [float(settings.initial_cash)]
        return _Episode(seed, settings, prices, first_row, days, portfolio, episode_id, start, menu)

    def _observe(self, reward: float | None, metadata: dict[str, Any] | None = None) -> TradingObservation:
        episode = self._started()
        prices, row = episode.prices, episode.first_row + episode.day
        closes, symbols = episode.closes, prices.symbols
        past = np.diff(np.log(prices.closes[row - episode.settings.window : row + 1]), axis=0)
        done = episode.day >= episode.days
        weights = episode.portfolio.shares * closes / episode.equities[-1]
        return TradingObservation.construct_unchecked(
            {
                "done": done,
                "reward": reward,
                "metadata": metadata or {},
                "day": episode.day,
                "days": episode.days,
                "date": None if prices.dates is None else prices.dates[row],
                "prices": dict(zip(symbols, closes.tolist(), strict=True)),
                "returns": dict(zip(symbols, past.T.tolist(), strict=True)),
                "weights": dict(zip(symbols, weights.tolist(), strict=True)),
                "equity": episode.equities[-1],
                "benchmark_equity": episode.benchmark_today(),
                "possible_actions": [] if done else [order for _, order in episode.menu],
                "action_names": [] if done else [name for name, _ in episode.menu],
            }
        )


def _costs(settings: Settings) -> Costs:
    return Costs(commission=settings.commission, slippage=settings.slippage)


def _chosen(prices: Prices, symbols: Sequence[str] | None) -> Prices:
    """The columns of some symbols. Raises ValueError for a symbol that the file does not have."""
    if symbols is None:
        return prices
    for symbol in symbols:
        if symbol not in prices.symbols:
            raise ValueError(f"symbols: {symbol!r:.80} is not among {_listed(prices.symbols)}.")
    columns = [prices.symbols.index(symbol) for symbol in symbols]
    return Prices(tuple(symbols), prices.closes[:, columns], prices.dates)


def _menu(symbols: Sequence[str]) -> list[tuple[str, dict[str, Any]]]:
    menu: list[tuple[str, dict[str, Any]]] = [("hold", {"weights": None}), ("cash", {"weights": {}})]
    if len(symbols) > _MOST_IN_MENU:
        return menu
    if len(symbols) > 1:
        menu.append(("equal", {"weights": dict.fromkeys(symbols, 1 / len(symbols))}))
    return menu + [(symbol, {"weights": {symbol: 1.0}}) for symbol in symbols]


def _checked_weights(weights: Mapping[str, float], symbols: Sequence[str]) -> Floats:
    """The weights in the order of the symbols, scaled where rounding has made them more than 1."""
    for symbol, weight in weights.items():
        if symbol not in symbols:
            raise ValueError(f"weights: {symbol!r:.80} is not among {_listed(symbols)}. Use these symbols only.")
        if not math.isfinite(weight) or weight < 0:
            raise ValueError(f"weights.{symbol}={weight}: expected a number from 0 to 1; short sales are not possible.")
    total = sum(weights.values())
    if total > 1 + _ROUNDING:
        raise ValueError(f"weights add up to {total:.6g}: at most 1 is possible, without credit. Divide them by it.")
    ordered = np.array([weights.get(symbol, 0.0) for symbol in symbols])
    return ordered / total if total > 1 else ordered


def _listed(symbols: Sequence[str]) -> str:
    return ", ".join(symbols[:20]) + (f" and {len(symbols) - 20} more" if len(symbols) > 20 else "")
