"""Client of the wildfire environment."""

from openenv.core.env_client import EnvClient
from openenv.envs.wildfire_env.models import WildfireAction, WildfireObservation, WildfireState


class WildfireEnv(EnvClient[WildfireAction, WildfireObservation, WildfireState]):
    """Client of one session. `reset` takes `seed`, `size`, `fires`, `spread`, `moist`, `wind`, `water`, `firebreaks`.

    Example:
        with WildfireEnv(base_url="http://localhost:8000") as env:
            result = env.reset(seed=3, wind="east")
            while not result.done:
                row, column = result.observation.burning[0]
                kind = "water" if result.observation.water else "wait"
                result = env.step(WildfireAction(kind=kind, row=row, column=column))
    """
