"""Trade a portfolio at daily prices, generated ones or those of your own file."""

from openenv.envs.trading_env.client import TradingEnv
from openenv.envs.trading_env.models import TradingAction, TradingObservation, TradingState
from openenv.envs.trading_env.text import TradingText

__all__ = ["TradingAction", "TradingEnv", "TradingObservation", "TradingState", "TradingText"]
