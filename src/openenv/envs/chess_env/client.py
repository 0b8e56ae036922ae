"""Client of the chess environment."""

from openenv.core.env_client import EnvClient
from openenv.envs.chess_env.models import ChessAction, ChessObservation, ChessState


class ChessEnv(EnvClient[ChessAction, ChessObservation, ChessState]):
    """Client of one session.

    `reset` takes `seed`, `fen`, `agent_color`, `opponent_policy`, `mcts_simulations`, `stockfish_nodes`, `max_moves`
    and `agent_player`.

    Example:
        with ChessEnv(base_url="http://localhost:8000") as env:
            result = env.reset(seed=3, agent_color="black", opponent_policy="greedy")
            while not result.done:
                result = env.step(ChessAction(move=result.observation.legal_actions[0]))
    """
