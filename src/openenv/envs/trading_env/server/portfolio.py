"""An account: cash and shares, orders with their costs, and the figures of a curve of equity."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from openenv.envs.trading_env.server.prices import DAYS_A_YEAR, Floats

_MOST_ROUNDS = 60
_CLOSE_ENOUGH = 1e-13


@dataclass(frozen=True, kw_only=True)
class Costs:
    """What an order costs, as shares of the traded value at the closing price."""

    commission: float
    slippage: float
    """How much higher a purchase, and how much lower a sale, is filled than the closing price."""

    @property
    def of_purchase(self) -> float:
        """Money above the value of what is bought."""
        return (1 + self.slippage) * (1 + self.commission) - 1

    @property
    def of_sale(self) -> float:
        """Money missing from the value of what is sold."""
        return 1 - (1 - self.slippage) * (1 - self.commission)


class Portfolio:
    """Cash and shares. Neither is ever negative."""

    def __init__(self, cash: float, num_symbols: int, costs: Costs) -> None:
        self.cash = cash
        self.shares: Floats = np.zeros(num_symbols)
        self.costs_paid = 0.0
        self.turnover = 0.0
        """Traded value, each time as a share of the equity before the order."""
        self._costs = costs

    def equity(self, prices: Floats) -> float:
        """Cash, and shares at these prices."""
        return self.cash + float(self.shares @ prices)

    def rebalance(self, prices: Floats, weights: Floats, max_shares: float | None) -> None:
        """Trade until each symbol has its share of the equity that is left after costs.

        weights: at least 0, together at most 1. max_shares: most shares of a symbol that are bought or sold; with it
        the targets may be missed. Purchases are cut in proportion where the cash does not suffice.
        """
        equity = self.equity(prices)
        target = weights * self._equity_after(equity, self.shares * prices, weights)
        trades = target / prices - self.shares
        if max_shares is not None:
            trades = np.clip(trades, -max_shares, max_shares)
        bought, sold = np.maximum(trades, 0), np.maximum(-trades, 0)
        available = self.cash + float(sold @ prices) * (1 - self._costs.of_sale)
        price_of_all = float(bought @ prices) * (1 + self._costs.of_purchase)
        if price_of_all > available:
            bought = bought * (available / price_of_all)
            price_of_all = available
        self.cash = available - price_of_all
        self.shares = self.shares + bought - sold
        self.turnover += float((bought + sold) @ prices) / equity
        self.costs_paid += equity - self.equity(prices)

    def _equity_after(self, equity: float, held: Floats, weights: Floats) -> float:
        """The equity after an order that reaches the weights: the costs depend on it, and it on them.

        Each round brings it nearer by the factor of the costs.
        """
        after = equity
        for _ in range(_MOST_ROUNDS):
            change = weights * after - held
            bought, sold = float(np.maximum(change, 0).sum()), float(np.maximum(-change, 0).sum())
            before, after = after, equity - bought * self._costs.of_purchase - sold * self._costs.of_sale
            if abs(after - before) <= _CLOSE_ENOUGH * equity:
                break
        return after


def sharpe(equities: Sequence[float]) -> float | None:
    """Annual Sharpe ratio of daily log returns, without interest on cash; None for under two returns, or no variance.

    equities: day by day.
    """
    returns = np.diff(np.log(equities))
    deviation = float(returns.std(ddof=1)) if len(returns) > 1 else 0.0
    return float(returns.mean()) / deviation * math.sqrt(DAYS_A_YEAR) if deviation > 0 else None


def max_drawdown(equities: Sequence[float]) -> float:
    """The largest loss from an earlier peak, as a share of the peak: 0 to 1."""
    peaks = np.maximum.accumulate(equities)
    return float((1 - np.asarray(equities) / peaks).max())
