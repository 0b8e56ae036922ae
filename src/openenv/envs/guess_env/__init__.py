"""Say the number that is written in words: the smallest environment with something to learn."""

from openenv.envs.guess_env.client import GuessEnv
from openenv.envs.guess_env.models import GuessAction, GuessObservation

__all__ = ["GuessAction", "GuessEnv", "GuessObservation"]
