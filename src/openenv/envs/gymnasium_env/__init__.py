"""Any registered Gymnasium environment: toy text, classic control, Box2D and MuJoCo."""

from openenv.envs.gymnasium_env.client import GymnasiumEnv
from openenv.envs.gymnasium_env.models import GymnasiumAction, GymnasiumObservation, GymnasiumState
from openenv.envs.gymnasium_env.text import GymnasiumText

__all__ = ["GymnasiumAction", "GymnasiumEnv", "GymnasiumObservation", "GymnasiumState", "GymnasiumText"]
