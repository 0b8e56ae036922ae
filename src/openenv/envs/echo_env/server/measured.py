"""What `openenv envs --measure` plays: messages of one length. An episode has no end, so 20 steps are played."""

from random import Random

from openenv.envs.echo_env.models import EchoAction, EchoObservation
from openenv.envs.echo_env.server.environment import EchoEnvironment
from openenv.envs.measured import MeasuredTask, in_process


def _message(_: EchoObservation, rng: Random) -> EchoAction:
    return EchoAction(message=f"{rng.getrandbits(64):016x}")


MEASURED = {"echo": MeasuredTask(play_bare=in_process(EchoEnvironment, _message), max_steps=20)}
