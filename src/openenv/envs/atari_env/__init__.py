"""Every Atari 2600 game of the Arcade Learning Environment, by frames or by the console's memory."""

from openenv.envs.atari_env.client import AtariEnv
from openenv.envs.atari_env.models import AtariAction, AtariObservation, AtariState
from openenv.envs.atari_env.text import AtariText

__all__ = ["AtariAction", "AtariEnv", "AtariObservation", "AtariState", "AtariText"]
