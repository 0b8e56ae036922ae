"""Chess from any position, against random play, tree search or Stockfish, or with both colours."""

from openenv.envs.chess_env.client import ChessEnv
from openenv.envs.chess_env.models import ChessAction, ChessObservation, ChessState
from openenv.envs.chess_env.text import ChessText

__all__ = ["ChessAction", "ChessEnv", "ChessObservation", "ChessState", "ChessText"]
