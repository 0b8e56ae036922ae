"""Client of the echo environment."""

from openenv.core.env_client import EnvClient
from openenv.envs.echo_env.models import EchoAction, EchoObservation, EchoState


class EchoEnv(EnvClient[EchoAction, EchoObservation, EchoState]):
    """Client of one echo session.

    Example:
        with EchoEnv(base_url="http://localhost:8000") as env:
            env.reset()
            print(env.step(EchoAction(message="hello")).observation.echoed_message)
    """
