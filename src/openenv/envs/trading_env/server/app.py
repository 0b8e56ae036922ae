"""Serves the trading environment: `python -m openenv.envs.trading_env.server.app --prices prices.csv --port 8000`."""

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from openenv import EnvironmentProgram
from openenv.envs.trading_env.server.environment import TradingEnvironment
from openenv.envs.trading_env.server.price_file import read_prices
from openenv.hosting.serving.settings import option


@dataclass(frozen=True, kw_only=True)
class TradingSettings:
    """Which prices are played. A client cannot name a file."""

    prices: str = option("", "Play the closing prices in this CSV or Parquet file", unset="prices are generated")


def make_with_prices(_: type, settings: TradingSettings) -> Callable[[], TradingEnvironment]:
    """Makes environments that share the prices of the file. Raises ValueError for a file without prices."""
    return partial(TradingEnvironment, read_prices(Path(settings.prices)) if settings.prices else None)


program = EnvironmentProgram(TradingEnvironment, TradingSettings, make_with_prices)
app = program.app()
main = program.main

if __name__ == "__main__":
    main()
