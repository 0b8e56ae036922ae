"""The client of a MiniGrid server."""

from openenv.core.env_client import EnvClient
from openenv.envs.minigrid_env.models import MiniGridAction, MiniGridObservation, MiniGridState


class MiniGridEnv(EnvClient[MiniGridAction, MiniGridObservation, MiniGridState]):
    """Client of one MiniGrid environment.

    `reset` takes `seed`, and for one episode `env_id`, `max_steps` and `render`:

        with MiniGridEnv(base_url="http://localhost:8000") as env:
            result = env.reset(seed=7, env_id="MiniGrid-DoorKey-5x5-v0")
            result = env.step(MiniGridAction(action_id=2))
    """
