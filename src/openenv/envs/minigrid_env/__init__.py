"""MiniGrid and BabyAI: rooms of a grid, with keys, doors and a mission in words."""

from openenv.envs.minigrid_env.client import MiniGridEnv
from openenv.envs.minigrid_env.models import MiniGridAction, MiniGridObservation, MiniGridState
from openenv.envs.minigrid_env.text import MiniGridText

__all__ = ["MiniGridAction", "MiniGridEnv", "MiniGridObservation", "MiniGridState", "MiniGridText"]
