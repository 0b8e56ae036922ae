"""The simplest environment: it says back what it hears."""

from openenv.envs.echo_env.client import EchoEnv
from openenv.envs.echo_env.models import EchoAction, EchoObservation, EchoState

__all__ = ["EchoAction", "EchoEnv", "EchoObservation", "EchoState"]
