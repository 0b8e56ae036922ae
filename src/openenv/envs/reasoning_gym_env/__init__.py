"""Reasoning tasks with answers that can be checked: the datasets of reasoning-gym."""

from openenv.envs.reasoning_gym_env.client import ReasoningGymEnv
from openenv.envs.reasoning_gym_env.models import ReasoningGymAction, ReasoningGymObservation, ReasoningGymState
from openenv.envs.reasoning_gym_env.text import ReasoningGymText

__all__ = [
    "ReasoningGymAction",
    "ReasoningGymEnv",
    "ReasoningGymObservation",
    "ReasoningGymState",
    "ReasoningGymText",
]
