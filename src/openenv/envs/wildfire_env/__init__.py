"""Fight a forest fire with a few drops of water and a few firebreaks."""

from openenv.envs.wildfire_env.client import WildfireEnv
from openenv.envs.wildfire_env.models import WildfireAction, WildfireObservation, WildfireState

__all__ = ["WildfireAction", "WildfireEnv", "WildfireObservation", "WildfireState"]
