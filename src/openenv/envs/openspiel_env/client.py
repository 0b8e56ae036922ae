"""The client of an OpenSpiel server."""

from openenv.core.env_client import EnvClient
from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation, OpenSpielState


class OpenSpielEnv(EnvClient[OpenSpielAction, OpenSpielObservation, OpenSpielState]):
    """Client of one seat of an OpenSpiel game.

    `reset` takes `seed`, and for one episode `game_name`, `game_params`, `agent_player` and `opponent_policy`:

        with OpenSpielEnv(base_url="http://localhost:8004") as env:
            result = env.reset(seed=7, game_name="tic_tac_toe", opponent_policy="mcts")
            result = env.step(OpenSpielAction(action_id=result.observation.legal_actions[0]))
    """
