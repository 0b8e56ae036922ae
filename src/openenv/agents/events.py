"""What happens during one turn of an agent."""

import time
from enum import StrEnum
from typing import Any, Literal

from pydantic import BaseModel, Field


class HarnessEventType(StrEnum):
    """Kinds of events."""

    LLM_REQUEST = "llm_request"
    LLM_RESPONSE = "llm_response"
    LLM_CHUNK = "llm_chunk"
    TOOL_CALL = "tool_call"
    TOOL_RESULT = "tool_result"
    TEXT_OUTPUT = "text_output"
    ERROR = "error"
    TURN_COMPLETE = "turn_complete"


class HarnessEvent(BaseModel):
    """One event, in the same form for every harness."""

    type: HarnessEventType
    timestamp: float = Field(default_factory=time.time)
    """Unix time in seconds."""
    data: dict[str, Any] = Field(default_factory=dict)
    """What the kind calls for: `tool_name` and `arguments` of a call, `text` of an output, `message` of an error,
    `response` and perhaps `done` of a complete turn."""


class HarnessResponse(BaseModel):
    """The outcome of one turn."""

    response: str
    events: list[HarnessEvent] = Field(default_factory=list)
    done: bool = False
    """Whether the agent considers its task complete."""


class HarnessClientMessage(BaseModel):
    """A client's message to an agent over a WebSocket."""

    type: Literal["message"]
    content: str


class HarnessProtocolError(BaseModel):
    """The answer to a message that is no HarnessClientMessage. No turn began, and the connection goes on."""

    type: Literal["protocol_error"] = "protocol_error"
    data: dict[str, Any]
    """`message` and `code`."""


def events_to_metadata(events: list[HarnessEvent]) -> list[dict[str, Any]]:
    """The events as JSON values, for the metadata of an observation."""
    return [event.model_dump(mode="json") for event in events]
