"""Draws an episode: `python -m openenv.envs.trading_env.server.plot --player trend --out episode.png`.

It needs the extra `plots`.
"""

import argparse
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any

from openenv.envs.trading_env.models import TradingAction, TradingObservation
from openenv.envs.trading_env.players import buy_and_hold, random_order, trend_following
from openenv.envs.trading_env.server.environment import TradingEnvironment
from openenv.envs.trading_env.server.price_file import read_prices
from openenv.hosting.serving.settings import json_object

PLAYERS: Mapping[str, Callable[[TradingObservation, Random], TradingAction]] = {
    "hold": buy_and_hold,
    "random": random_order,
    "trend": trend_following,
}


def draw_episode(observations: Sequence[TradingObservation], path: Path) -> None:
    """Write a PNG of an episode: the equity beside its benchmark, the loss from the peak, and the weights.

    observations: all of an episode, the first one included. Raises ImportError without matplotlib.
    """
    # a part of the extra `plots`, which the server does not need
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    first = observations[0]
    days = [seen.day for seen in observations]
    equities = [seen.equity for seen in observations]
    peaks = [max(equities[: day + 1]) for day in range(len(equities))]
    figure = Figure(figsize=(9, 7), layout="constrained")
    FigureCanvasAgg(figure)
    money, loss, share = figure.subplots(3, 1, sharex=True, height_ratios=(3, 1, 2))
    money.plot(days, equities, label="equity")
    money.plot(days, [seen.benchmark_equity for seen in observations], label="equal weights, held", linestyle="--")
    money.set_ylabel("money")
    money.legend()
    loss.fill_between(days, [100 * (equity / peak - 1) for equity, peak in zip(equities, peaks, strict=True)])
    loss.set_ylabel("below peak (%)")
    shares = [[100 * seen.weights[symbol] for seen in observations] for symbol in first.prices]
    share.stackplot(days, *shares, labels=list(first.prices), step="post")
    share.set_ylabel("weights (%)")
    share.set_ylim(0, 100)
    share.set_xlabel("day" if first.date is None else f"day, from {first.date}")
    if len(shares) <= 10:
        share.legend(loc="upper left")
    figure.savefig(path, dpi=110)


def play(environment: TradingEnvironment, player: str, seed: int, **reset: Any) -> list[TradingObservation]:
    """All observations of an episode. player: one of PLAYERS."""
    rng = Random(seed)
    observations = [environment.reset(seed=seed, **reset)]
    while not observations[-1].done:
        observations.append(environment.step(PLAYERS[player](observations[-1], rng)))
    return observations


def main(argv: Sequence[str] | None = None) -> None:
    """Play an episode in this process and draw it. argv: command-line arguments; None: the program's own."""
    parser = argparse.ArgumentParser(description="Play an episode of the trading environment and draw it as a PNG.")
    parser.add_argument("--player", choices=sorted(PLAYERS), default="trend", help="Play by this rule (default trend).")
    parser.add_argument("--prices", type=Path, help="Play the prices in this file (default: prices are generated).")
    parser.add_argument("--reset", default="{}", help="Keywords of the reset as a JSON object (default {}).")
    parser.add_argument("--seed", type=int, default=0, help="Play the episode of this seed (default 0).")
    parser.add_argument("--out", type=Path, default=Path("episode.png"), help="Write this file (default episode.png).")
    args = parser.parse_args(argv)
    environment = TradingEnvironment(None if args.prices is None else read_prices(args.prices))
    reset = json_object("reset", args.reset, '{"momentum": 0.4}')
    draw_episode(play(environment, args.player, args.seed, **reset), args.out)


if __name__ == "__main__":
    main()
