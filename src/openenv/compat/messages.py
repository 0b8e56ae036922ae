"""The messages of the published dialect as models, for programs that build or read them themselves.

The server does not go through them: it reads and writes bytes (`core/wire/server_codec.py`).
"""

from enum import StrEnum
from typing import Any, Literal, Self

from pydantic import BaseModel, ConfigDict, Field, model_validator

_MOST_FIELDS = 1000


class BaseMessage(BaseModel):
    """Base of these models, and of those of MCP and of tasks in `core`: an unknown field is refused."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True)

    @model_validator(mode="before")
    @classmethod
    def refuse_very_many_fields(cls, data: Any) -> Any:
        """Raises ValueError for more fields than any message has: a row of an error for each would take seconds."""
        if isinstance(data, dict) and len(data) > _MOST_FIELDS:
            raise ValueError(f"{len(data)} fields: a message has at most {_MOST_FIELDS}")
        return data


class WSErrorCode(StrEnum):
    """Codes of an error frame. The first seven are the published ones."""

    INVALID_JSON = "INVALID_JSON"
    UNKNOWN_TYPE = "UNKNOWN_TYPE"
    VALIDATION_ERROR = "VALIDATION_ERROR"
    EXECUTION_ERROR = "EXECUTION_ERROR"
    CAPACITY_REACHED = "CAPACITY_REACHED"
    FACTORY_ERROR = "FACTORY_ERROR"
    SESSION_ERROR = "SESSION_ERROR"
    EPISODE_OVER = "EPISODE_OVER"
    TIMEOUT = "TIMEOUT"
    WORKER_CRASHED = "WORKER_CRASHED"
    NOT_SUPPORTED = "NOT_SUPPORTED"
    UNKNOWN_TASK = "UNKNOWN_TASK"
    MESSAGE_TOO_BIG = "MESSAGE_TOO_BIG"
    UNAUTHORIZED = "UNAUTHORIZED"
    FORBIDDEN_ORIGIN = "FORBIDDEN_ORIGIN"
    FORBIDDEN_HOST = "FORBIDDEN_HOST"


class WSResetMessage(BaseMessage):
    """Start an episode."""

    type: Literal["reset"] = "reset"
    data: dict[str, Any] = Field(default_factory=dict, description="seed, episode_id, the environment's own keywords")


class WSStepMessage(BaseMessage):
    """Take an action."""

    type: Literal["step"] = "step"
    data: dict[str, Any] = Field(description="The action's fields")


class WSStateMessage(BaseMessage):
    """Request the state."""

    type: Literal["state"] = "state"


class WSCloseMessage(BaseMessage):
    """End the session."""

    type: Literal["close"] = "close"


WSIncomingMessage = WSResetMessage | WSStepMessage | WSStateMessage | WSCloseMessage


class WSMCPMessage(BaseMessage):
    """A JSON-RPC request inside a frame of `/ws`."""

    type: Literal["mcp"] = "mcp"
    data: dict[str, Any] = Field(description="The JSON-RPC request")


class WSObservationResponse(BaseMessage):
    """Answer to a reset or a step."""

    type: Literal["observation"] = "observation"
    data: dict[str, Any] = Field(description="observation, reward, done, and metadata where there is some")


class WSStateResponse(BaseMessage):
    """Answer to a state request."""

    type: Literal["state"] = "state"
    data: dict[str, Any] = Field(description="The state's fields")


class WSMCPResponse(BaseMessage):
    """The response to it."""

    type: str = "mcp"
    data: dict[str, Any] = Field(description="The JSON-RPC response")


class WSErrorResponse(BaseMessage):
    """A request was refused, or failed."""

    type: Literal["error"] = "error"
    data: dict[str, Any] = Field(description="message, code, and what else the code calls for")


class CodeExecResult(BaseMessage):
    """Output and exit code of a program."""

    stdout: str
    stderr: str
    exit_code: int


class ServerCapacityStatus(BaseMessage):
    """How full a server is."""

    active_sessions: int = Field(ge=0)
    max_sessions: int = Field(ge=1)

    @model_validator(mode="after")
    def check_capacity_bounds(self) -> Self:
        """Raises ValueError for more sessions than there may be."""
        if self.active_sessions > self.max_sessions:
            raise ValueError(f"active_sessions={self.active_sessions} is above max_sessions={self.max_sessions}")
        return self

    @property
    def available_slots(self) -> int:
        """Sessions that may still be opened."""
        return self.max_sessions - self.active_sessions

    @property
    def is_at_capacity(self) -> bool:
        """Whether none may."""
        return self.available_slots == 0

    @classmethod
    def from_counts(cls, active: int, max_sessions: int) -> Self:
        """The status for these two counts."""
        return cls(active_sessions=active, max_sessions=max_sessions)


class SessionInfo(BaseMessage):
    """What a server knows of a session."""

    session_id: str
    created_at: float = Field(description="Unix time in seconds")
    last_activity_at: float = Field(description="Unix time in seconds")
    step_count: int = Field(default=0, ge=0)
    environment_type: str = Field(description="Name of the environment's class")


class ConcurrencyConfig(BaseModel):
    """How many sessions a server holds and for how long an idle one lives (the published package's name for it)."""

    model_config = ConfigDict(extra="forbid")

    max_concurrent_envs: int = Field(default=1, ge=1, description="Sessions at one time")
    session_timeout: float | None = Field(
        default=None, gt=0, description="Seconds without a request; None: the server's own"
    )
