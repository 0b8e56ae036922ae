"""The client of a server of the DeepMind Control Suite."""

from openenv.core.env_client import EnvClient
from openenv.envs.dm_control_env.models import DMControlAction, DMControlObservation, DMControlState


class DMControlEnv(EnvClient[DMControlAction, DMControlObservation, DMControlState]):
    """Client of one task of the suite.

    `reset` takes `seed`, and for one episode `domain_name`, `task_name`, `max_steps`, `render`, `width`, `height` and
    `camera_id`:

        with DMControlEnv(base_url="http://localhost:8000") as env:
            result = env.reset(seed=7, domain_name="cheetah", task_name="run")
            result = env.step(DMControlAction(values=[0.0] * 6))
    """
