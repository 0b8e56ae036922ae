"""TextArena: games that are played in words, alone or with several seats."""

from openenv.envs.textarena_env.client import TextArenaEnv
from openenv.envs.textarena_env.models import TextArenaAction, TextArenaObservation, TextArenaState
from openenv.envs.textarena_env.text import TextArenaText

__all__ = ["TextArenaAction", "TextArenaEnv", "TextArenaObservation", "TextArenaState", "TextArenaText"]
