"""Messages of the clerk: token ids, and turns typed as `Message`."""

from pydantic import Field

from openenv.core.env_server.interfaces import Message
from openenv.core.env_server.types import Action, Observation, State


class ClerkAction(Action):
    """Token ids of a turn."""

    tokens: list[int] = Field(..., min_length=1)


class ClerkState(State):
    """The conversation so far."""

    history_messages: list[Message] = Field(default_factory=list)
    history_tokens: list[list[int]] = Field(default_factory=list)


class ClerkObservation(Observation):
    """The conversation as the agent sees it."""

    messages: list[Message] = Field(default_factory=list)
    tokens: list[int] = Field(default_factory=list)
