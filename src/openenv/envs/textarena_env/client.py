"""The typed client of TextArena's games."""

from openenv.core.env_client import EnvClient
from openenv.envs.textarena_env.models import TextArenaAction, TextArenaObservation, TextArenaState


class TextArenaEnv(EnvClient[TextArenaAction, TextArenaObservation, TextArenaState]):
    """Plays games of TextArena on a server.

    Example:
        with TextArenaEnv(base_url="http://localhost:8000") as env:
            result = env.reset(seed=7, game="Wordle")
            result = env.step(TextArenaAction(message="[crane]"))
    """
