"""Every game of OpenSpiel as an environment: board games, card games, grids and matrix games, from any seat."""

from openenv.envs.openspiel_env.client import OpenSpielEnv
from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation, OpenSpielState
from openenv.envs.openspiel_env.text import OpenSpielText

__all__ = ["OpenSpielAction", "OpenSpielEnv", "OpenSpielObservation", "OpenSpielState", "OpenSpielText"]
