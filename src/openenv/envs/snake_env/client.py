"""Client of the snake environment."""

from openenv.core.env_client import EnvClient
from openenv.envs.snake_env.models import SnakeAction, SnakeObservation, SnakeState


class SnakeEnv(EnvClient[SnakeAction, SnakeObservation, SnakeState]):
    """Client of one session. `reset` takes `seed`, `size`, `max_steps` and `hunger`.

    Example:
        with SnakeEnv(base_url="http://localhost:8000") as env:
            result = env.reset(seed=3, size=8)
            while not result.done:
                result = env.step(SnakeAction(direction=result.observation.legal_actions[0]))
    """
