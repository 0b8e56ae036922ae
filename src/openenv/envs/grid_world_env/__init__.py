"""Reach the goal of a grid with obstacles, where steps may slip to a side."""

from openenv.envs.grid_world_env.client import GridWorldEnv
from openenv.envs.grid_world_env.models import GridWorldAction, GridWorldObservation, GridWorldState

__all__ = ["GridWorldAction", "GridWorldEnv", "GridWorldObservation", "GridWorldState"]
