"""Client of the guess environment."""

from openenv.core.env_client import EnvClient
from openenv.core.env_server.types import State
from openenv.envs.guess_env.models import GuessAction, GuessObservation


class GuessEnv(EnvClient[GuessAction, GuessObservation, State]):
    """Client of one session.

    Example:
        with GuessEnv(base_url="http://localhost:8000") as env:
            print(env.reset(seed=3).observation.word)
            print(env.step(GuessAction(number=3)).reward)
    """
