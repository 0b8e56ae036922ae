"""The DeepMind Control Suite: continuous control of simulated bodies."""

from openenv.envs.dm_control_env.client import DMControlEnv
from openenv.envs.dm_control_env.models import DMControlAction, DMControlObservation, DMControlState
from openenv.envs.dm_control_env.text import DMControlText

__all__ = ["DMControlAction", "DMControlEnv", "DMControlObservation", "DMControlState", "DMControlText"]
