"""Action, observation and state of the trading environment."""

from typing import Any

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State


class TradingAction(Action):
    """An order: the portfolio to have after the next close."""

    weights: dict[str, float] | None = Field(
        description="Share of the equity by symbol, each from 0, together at most 1; the rest is cash. A symbol that "
        "is left out is sold. null: trade nothing"
    )  # fmt: skip


class TradingObservation(Observation):
    """What is known after the close of a day. The metadata of the first observation contains `seed` and `source`."""

    METADATA_IS_PLAIN_JSON = True

    day: int = Field(description="Days since the first observation, from 0")
    days: int = Field(description="The day after which the episode is done")
    date: str | None = Field(default=None, description="ISO date of the day; null for generated prices")
    prices: dict[str, float] = Field(description="Closing price by symbol")
    returns: dict[str, list[float]] = Field(
        description="Log returns of the last days by symbol, oldest first; the last one is today's"
    )
    weights: dict[str, float] = Field(description="Share of the equity that each symbol has now; the rest is cash")
    equity: float = Field(description="Cash, and shares at the closing price")
    benchmark_equity: float = Field(description="Equity of equal weights, bought at the first close and held")
    possible_actions: list[dict[str, Any]] = Field(
        default_factory=list, description="Ready-made orders; any other weights are possible too. Empty when done"
    )
    action_names: list[str] = Field(
        default_factory=list, description="Their names: hold, cash, equal, and a symbol for all in that symbol"
    )


class TradingState(State):
    """The account of the episode, up to today."""

    source: str = Field(default="generated", description="generated, or file")
    symbols: list[str] = Field(default_factory=list, description="What can be bought")
    days: int = Field(default=0, description="Steps of the episode")
    cash: float = Field(default=0.0, description="Money that is not invested")
    holdings: dict[str, float] = Field(default_factory=dict, description="Shares by symbol; fractions are possible")
    equity: float = Field(default=0.0, description="Cash, and shares at the closing price")
    costs: float = Field(default=0.0, description="Commission and slippage so far, in money")
    turnover: float = Field(default=0.0, description="Traded value, each time as a share of the equity, added up")
    sharpe: float | None = Field(
        default=None, description="Mean of the daily log returns of the equity by their standard deviation, times the "
        "root of 252; null where it is not defined"
    )  # fmt: skip
    max_drawdown: float = Field(default=0.0, description="Largest loss from an earlier peak, as a share of the peak")
    benchmark_equity: float = Field(default=0.0, description="Equity of equal weights, bought and held")
    benchmark_sharpe: float | None = Field(default=None, description="The same of the benchmark")
    benchmark_max_drawdown: float = Field(default=0.0, description="The same of the benchmark")
