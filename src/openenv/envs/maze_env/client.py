"""Client of the maze environment."""

from openenv.core.env_client import EnvClient
from openenv.envs.maze_env.models import MazeAction, MazeObservation, MazeState


class MazeEnv(EnvClient[MazeAction, MazeObservation, MazeState]):
    """Client of one session. `reset` takes `seed`, `size` and `max_steps`.

    Example:
        with MazeEnv(base_url="http://localhost:8000") as env:
            result = env.reset(seed=3, size=5)
            while not result.done:
                result = env.step(MazeAction(direction=result.observation.legal_actions[0]))
    """
