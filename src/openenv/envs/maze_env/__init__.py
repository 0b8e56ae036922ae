"""Find the way out of a maze that the seed determines."""

from openenv.envs.maze_env.client import MazeEnv
from openenv.envs.maze_env.models import MazeAction, MazeObservation, MazeState

__all__ = ["MazeAction", "MazeEnv", "MazeObservation", "MazeState"]
