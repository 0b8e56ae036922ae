"""Client of the card games."""

from openenv.core.env_client import EnvClient
from openenv.envs.cards_env.models import CardsAction, CardsObservation, CardsState


class CardsEnv(EnvClient[CardsAction, CardsObservation, CardsState]):
    """Client of one session. `reset` takes `seed`, `game`, `agent_player`, `opponent_policy` and `num_players`.

    Example:
        with CardsEnv(base_url="http://localhost:8000") as env:
            result = env.reset(seed=3, game="uno", opponent_policy="rule")
            while not result.done:
                result = env.step(CardsAction(action_id=result.observation.legal_actions[0]))
    """
