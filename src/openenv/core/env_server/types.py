"""The messages of the specification: what an agent sends, what it sees, and what an episode is."""

import functools
from collections.abc import Generator
from enum import StrEnum
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field

from openenv.core.env_server.dataclass_idiom import DataclassIdiom
from openenv.core.env_server.messages import (
    BaseMessage,
    CodeExecResult,
    GetTaskRangeRequest,
    GetTaskRequest,
    ListTasksRequest,
    NumTasksRequest,
    ServerCapacityStatus,
    SessionInfo,
    WSCloseMessage,
    WSErrorCode,
    WSErrorResponse,
    WSIncomingMessage,
    WSObservationResponse,
    WSResetMessage,
    WSStateMessage,
    WSStateResponse,
    WSStepMessage,
)

__all__ = [
    "Action",
    "BaseMessage",
    "CodeExecResult",
    "ConcurrencyConfig",
    "EnvironmentMetadata",
    "ForkRequest",
    "GetTaskRangeRequest",
    "GetTaskRequest",
    "HealthResponse",
    "HealthStatus",
    "ListTasksRequest",
    "NumTasksRequest",
    "Observation",
    "OpenAction",
    "ResetData",
    "ResetRequest",
    "ResetResponse",
    "RestoreRequest",
    "SchemaResponse",
    "ServerCapacityStatus",
    "ServerMode",
    "SessionInfo",
    "State",
    "StepRequest",
    "StepResponse",
    "WSCloseMessage",
    "WSErrorCode",
    "WSErrorResponse",
    "WSIncomingMessage",
    "WSObservationResponse",
    "WSResetMessage",
    "WSStateMessage",
    "WSStateResponse",
    "WSStepMessage",
]


_new = object.__new__
# pydantic's own slots, past its __setattr__
_put_fields = vars(BaseModel)["__dict__"].__set__
_put_fields_set = vars(BaseModel)["__pydantic_fields_set__"].__set__
_put_extra = vars(BaseModel)["__pydantic_extra__"].__set__
_put_private = vars(BaseModel)["__pydantic_private__"].__set__


@functools.lru_cache(maxsize=256)
def _fields_of(cls: type[BaseModel]) -> set[str]:
    """The names of a class's fields, to be copied, which takes half the time of collecting them."""
    return set(cls.model_fields)


class Action(DataclassIdiom):
    """What the agent does. Subclass it with the fields of your environment; an unknown field is refused."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, arbitrary_types_allowed=True)

    metadata: dict[str, Any] = Field(default_factory=dict, description="Anything the agent wants to add")


class Observation(DataclassIdiom):
    """What the agent sees after a reset or a step. Subclass it with the fields of your environment."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, arbitrary_types_allowed=True)

    METADATA_IS_JSON: ClassVar[bool] = False
    """Whether `metadata` holds dictionaries, lists, text, numbers, booleans, None alone: it is written faster then."""

    done: bool = Field(default=False, description="Whether the episode has ended")
    # tried in this order, and nearly all rewards are floats; told in that of the published schema
    reward: float | int | bool | None = Field(
        default=None,
        description="Reward of the last action",
        json_schema_extra={"anyOf": [{"type": kind} for kind in ("boolean", "integer", "number", "null")]},
    )
    metadata: dict[str, Any] = Field(default_factory=dict, description="Anything the environment wants to add")

    @classmethod
    def trusted(cls, fields: dict[str, Any]) -> Self:
        """An observation that nobody checks, at a fifth of the price: for environments that step in microseconds.

        fields: a value of the right type for each and every field; the dictionary becomes the observation's own. The
        class has no private attributes, and takes no fields that it does not declare.
        """
        observation = _new(cls)
        _put_fields(observation, fields)
        _put_fields_set(observation, _fields_of(cls).copy())
        _put_extra(observation, None)
        _put_private(observation, None)
        return observation


class State(DataclassIdiom):
    """What an episode is: who it is and how far it has come. More fields may be added freely."""

    model_config = ConfigDict(extra="allow", validate_assignment=True, arbitrary_types_allowed=True)

    episode_id: str | None = Field(default=None, description="Identity of the current episode")
    step_count: int = Field(default=0, ge=0, description="Steps taken since the reset")

    def __await__(self) -> Generator[None, None, Self]:
        """Awaiting a state yields it, so that code written for an asynchronous client works with a plain one."""
        return self
        yield  # makes this function a generator, as `await` wants


class OpenAction(Action):
    """An action whose class nobody declared: it takes any field."""

    model_config = ConfigDict(extra="allow")


class EnvironmentMetadata(BaseModel):
    """What an environment says about itself at `/metadata`."""

    name: str
    description: str
    readme_content: str | None = None
    version: str | None = None
    author: str | None = None
    documentation_url: str | None = None


class ConcurrencyConfig(BaseModel):
    """How many sessions a server holds and for how long an idle one lives (the published package's name for it)."""

    model_config = ConfigDict(extra="forbid")

    max_concurrent_envs: int = Field(default=1, ge=1, description="Sessions at one time")
    session_timeout: float | None = Field(
        default=None, gt=0, description="Seconds without a request; None: the server's own"
    )


class HealthStatus(StrEnum):
    """The states that `/health` can report."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    DEGRADED = "degraded"


class ServerMode(StrEnum):
    """Simulation serves reset, step and state over plain HTTP; production does not."""

    SIMULATION = "simulation"
    PRODUCTION = "production"


class ResetData(BaseModel):
    """Data of a reset frame; further keys reach `Environment.reset` as keywords."""

    model_config = ConfigDict(extra="allow")

    seed: int | None = Field(default=None, strict=True, description="Equal seeds give equal episodes")
    episode_id: str | None = Field(default=None, max_length=255)


class ResetRequest(ResetData):
    """Body of `POST /reset`."""

    seed: int | None = Field(default=None, ge=0, strict=True, description="Equal seeds give equal episodes")


class StepRequest(BaseModel):
    """Body of `POST /step`; further keys reach `Environment.step` as keywords."""

    model_config = ConfigDict(extra="allow")

    action: dict[str, Any]
    timeout_s: float | None = Field(default=None, gt=0, strict=True, description="Seconds the step may take")
    request_id: str | None = Field(default=None, max_length=255)


class RestoreRequest(BaseModel):
    """Data of a restore frame."""

    model_config = ConfigDict(extra="forbid")

    token: str


class ForkRequest(BaseModel):
    """Data of a fork frame."""

    model_config = ConfigDict(extra="forbid")

    count: int = Field(ge=1, le=1024, strict=True, description="New sessions to open from where this one stands")


class StepResponse(BaseModel):
    """Answer to a reset or a step over HTTP."""

    observation: dict[str, Any]
    reward: float | None = None
    done: bool = False
    metadata: dict[str, Any] | None = None
    session_id: str | None = None


ResetResponse = StepResponse


class SchemaResponse(BaseModel):
    """JSON Schemas of the environment's messages, at `/schema`."""

    action: dict[str, Any]
    observation: dict[str, Any]
    state: dict[str, Any]
    reset_observation: dict[str, Any] | None = None


class HealthResponse(BaseModel):
    """Body of `/health`."""

    status: HealthStatus = HealthStatus.HEALTHY
