"""Action, observation and state of the echo environment."""

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State


class EchoAction(Action):
    """A message to send."""

    message: str = Field(description="The message to send")


class EchoObservation(Observation):
    """The message that the environment returns."""

    echoed_message: str = Field(default="", description="The message of the action; a greeting after a reset")
    message_length: int = Field(default=0, ge=0, description="Length of the message in characters")


class EchoState(State):
    """The episode so far."""

    last_message: str = Field(default="", description="The message of the last step")
