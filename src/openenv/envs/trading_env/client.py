"""Client of the trading environment."""

from openenv.core.env_client import EnvClient
from openenv.envs.trading_env.models import TradingAction, TradingObservation, TradingState


class TradingEnv(EnvClient[TradingAction, TradingObservation, TradingState]):
    """Client of one session. The README lists the keywords of `reset`.

    Example:
        with TradingEnv(base_url="http://localhost:8000") as env:
            result = env.reset(seed=3, num_symbols=2, days=60)
            while not result.done:
                result = env.step(TradingAction(weights={"S1": 0.5, "S2": 0.5}))
            print(env.state().sharpe)
    """
