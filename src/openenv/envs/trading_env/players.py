"""Players of prices: at random, by holding, and by trends."""

from random import Random

from openenv.envs.trading_env.models import TradingAction, TradingObservation
from openenv.envs.trading_env.text import move

_UP = 0.5
"""A trend of so many standard deviations is bought."""


def random_order(observation: TradingObservation, rng: Random) -> TradingAction:
    """Each ready-made order with the same probability."""
    return TradingAction(**rng.choice(observation.possible_actions))


def buy_and_hold(observation: TradingObservation, _: Random) -> TradingAction:
    """Equal weights on the first day, and no order after it."""
    symbols = observation.prices
    return TradingAction(weights=dict.fromkeys(symbols, 1 / len(symbols)) if observation.day == 0 else None)


def trend_following(observation: TradingObservation, _: Random) -> TradingAction:
    """Equal weights of the symbols that have risen over the window, traded when these symbols change."""
    rising = [symbol for symbol, past in observation.returns.items() if move(past, len(past)) > _UP]
    held = [symbol for symbol, weight in observation.weights.items() if weight > 0]
    return TradingAction(weights=None if rising == held else dict.fromkeys(rising, 1 / max(1, len(rising))))
