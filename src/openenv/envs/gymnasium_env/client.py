"""The client of a Gymnasium server."""

from openenv.core.env_client import EnvClient
from openenv.envs.gymnasium_env.models import GymnasiumAction, GymnasiumObservation, GymnasiumState


class GymnasiumEnv(EnvClient[GymnasiumAction, GymnasiumObservation, GymnasiumState]):
    """Client of one Gymnasium environment.

    `reset` takes `seed`, and for one episode `env_id`, `env_options` and `max_steps`:

        with GymnasiumEnv(base_url="http://localhost:8000") as env:
            result = env.reset(seed=7, env_id="FrozenLake-v1", env_options={"is_slippery": False})
            result = env.step(GymnasiumAction(value=2))
    """
