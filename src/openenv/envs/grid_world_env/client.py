"""Client of the grid world environment."""

from openenv.core.env_client import EnvClient
from openenv.envs.grid_world_env.models import GridWorldAction, GridWorldObservation, GridWorldState


class GridWorldEnv(EnvClient[GridWorldAction, GridWorldObservation, GridWorldState]):
    """Client of one session. `reset` takes `seed`, `size`, `density`, `start`, `goal`, `layout`, `slip`, `max_steps`.

    Example:
        with GridWorldEnv(base_url="http://localhost:8000") as env:
            result = env.reset(seed=3, size=6, slip=0.1)
            while not result.done:
                result = env.step(GridWorldAction(direction=result.observation.free[0]))
    """
