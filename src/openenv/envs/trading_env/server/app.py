"""Serves the trading environment: `python -m openenv.envs.trading_env.server.app --prices prices.csv --port 8000`.

The environment variable TRADING_PRICES names the file of `app` (default: none, so prices are generated). A client
cannot name a file.
"""

import argparse
import os
from collections.abc import Sequence
from functools import partial
from pathlib import Path

from fastapi import FastAPI

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.serving.cli_options import add_server_options, run_server
from openenv.envs.trading_env.models import TradingAction, TradingObservation, TradingState
from openenv.envs.trading_env.server.environment import TradingEnvironment
from openenv.envs.trading_env.server.price_file import read_prices


def build_app(prices: str = "", config: ServerConfig | None = None) -> FastAPI:
    """Return the application that serves the trading environment.

    prices: a CSV or Parquet file; empty: prices are generated. Raises ValueError for a file without prices.
    """
    table = read_prices(Path(prices)) if prices else None
    return create_app(
        partial(TradingEnvironment, table),
        TradingAction,
        TradingObservation,
        state_cls=TradingState,
        env_name="trading_env",
        config=config,
    )


app = build_app(os.environ.get("TRADING_PRICES", ""))


def main(argv: Sequence[str] | None = None) -> None:
    """Serve until interrupted. argv: command-line arguments; None: the program's own."""
    parser = argparse.ArgumentParser(
        prog="python -m openenv.envs.trading_env.server.app", description="Serve the trading environment."
    )
    parser.add_argument(
        "--prices",
        default=os.environ.get("TRADING_PRICES", ""),
        help="Play the closing prices in this CSV or Parquet file (default: prices are generated).",
    )
    add_server_options(parser)
    run_server(parser, argv, _build)


def _build(args: argparse.Namespace, config: ServerConfig) -> FastAPI:
    return build_app(args.prices, config)


if __name__ == "__main__":
    main()
