"""Messages of the echo environment."""

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State


class EchoAction(Action):
    """Something to say."""

    message: str = Field(description="What to say")


class EchoObservation(Observation):
    """What came back."""

    echoed_message: str = Field(default="", description="The message that was said; at reset a greeting")
    message_length: int = Field(default=0, ge=0, description="Its length in characters")


class EchoState(State):
    """The episode so far."""

    last_message: str = Field(default="", description="The message of the last step")
