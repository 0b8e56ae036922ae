"""Snake: eat, grow, and meet neither the wall nor yourself."""

from openenv.envs.snake_env.client import SnakeEnv
from openenv.envs.snake_env.models import SnakeAction, SnakeObservation, SnakeState

__all__ = ["SnakeAction", "SnakeEnv", "SnakeObservation", "SnakeState"]
