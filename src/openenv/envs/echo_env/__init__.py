"""The simplest environment: it returns the message it receives."""

from openenv.envs.echo_env.client import EchoEnv
from openenv.envs.echo_env.models import EchoAction, EchoObservation, EchoState

__all__ = ["EchoAction", "EchoEnv", "EchoObservation", "EchoState"]
