"""The messages of the specification: actions, observations, states, and the bodies of HTTP requests."""

import dataclasses
import functools
from collections.abc import Callable
from enum import StrEnum
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field
from pydantic.fields import FieldInfo

from openenv.compat.messages import BaseMessage as BaseMessage
from openenv.compat.messages import CodeExecResult as CodeExecResult
from openenv.compat.messages import ConcurrencyConfig as ConcurrencyConfig
from openenv.compat.messages import ServerCapacityStatus as ServerCapacityStatus
from openenv.compat.messages import SessionInfo as SessionInfo
from openenv.compat.messages import WSCloseMessage as WSCloseMessage
from openenv.compat.messages import WSErrorCode as WSErrorCode
from openenv.compat.messages import WSErrorResponse as WSErrorResponse
from openenv.compat.messages import WSIncomingMessage as WSIncomingMessage
from openenv.compat.messages import WSObservationResponse as WSObservationResponse
from openenv.compat.messages import WSResetMessage as WSResetMessage
from openenv.compat.messages import WSStateMessage as WSStateMessage
from openenv.compat.messages import WSStateResponse as WSStateResponse
from openenv.compat.messages import WSStepMessage as WSStepMessage
from openenv.core.client_types import AwaitsItself

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


def _message_init() -> Callable[..., None]:
    def __init__(self: BaseModel, /, *args: Any, **data: Any) -> None:
        if args:
            data = {**_named(type(self), args), **data}
        self.__pydantic_validator__.validate_python(data, self_instance=self)

    # pydantic then validates straight into the instance instead of calling this function for each message.
    __init__.__pydantic_base_init__ = True  # type: ignore[attr-defined]
    return __init__


def _named(cls: type[BaseModel], args: tuple[Any, ...]) -> dict[str, Any]:
    """Names for the positional arguments that the dataclass decorator allows."""
    names = [field.name for field in dataclasses.fields(cls) if not field.kw_only]
    if len(args) > len(names):
        takes = f"at most {len(names)} positional arguments ({', '.join(names)})" if names else "keyword arguments only"
        raise TypeError(f"{cls.__name__} takes {takes}, {len(args)} were given")
    return dict(zip(names, args, strict=False))


def _dataclass_field(name: str, info: FieldInfo) -> "dataclasses.Field[Any]":
    default: Any = dataclasses.MISSING if info.is_required() or info.default_factory else info.default
    field: dataclasses.Field[Any] = dataclasses.field(kw_only=True)
    field.default = default
    if info.default_factory is not None:
        field.default_factory = info.default_factory  # type: ignore[assignment]
    field.name = name
    field.type = info.annotation
    field._field_type = dataclasses._FIELD  # type: ignore[attr-defined]
    return field


@dataclasses.dataclass
class _Plain:
    """A real dataclass, to borrow the parameters that the decorator looks for in its bases."""


class DataclassMessage(BaseModel):
    """Base of every message: a pydantic model that `@dataclass` may decorate and `dataclasses.fields()` can list.

    The decorator leaves an `__init__` alone that it finds in the class, so each class gets one of its own.
    """

    def __init_subclass__(cls, **kwargs: Any) -> None:
        if "__init__" not in cls.__dict__:
            cls.__init__ = _message_init()  # type: ignore[method-assign]
        super().__init_subclass__(**kwargs)

    @classmethod
    def __pydantic_init_subclass__(cls, **kwargs: Any) -> None:
        super().__pydantic_init_subclass__(**kwargs)
        fields = {name: _dataclass_field(name, info) for name, info in cls.model_fields.items()}
        cls.__dataclass_fields__ = fields
        cls.__dataclass_params__ = _Plain.__dataclass_params__  # type: ignore[attr-defined]


class Action(DataclassMessage):
    """What the agent does. Subclass it with the fields of your environment; an unknown field is refused."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, arbitrary_types_allowed=True)

    metadata: dict[str, Any] = Field(default_factory=dict, description="Anything that the agent adds")


class Observation(DataclassMessage):
    """What the agent sees after a reset or a step. Subclass it with the fields of your environment."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, arbitrary_types_allowed=True)

    METADATA_IS_PLAIN_JSON: ClassVar[bool] = False
    """Whether `metadata` holds only dictionaries, lists, text, numbers, booleans and None, which are encoded faster."""

    done: bool = Field(default=False, description="Whether the episode has ended")
    # validated in this order, since most rewards are floats; the schema has the published order
    reward: float | int | bool | None = Field(
        default=None,
        description="Reward of the last action",
        json_schema_extra={"anyOf": [{"type": kind} for kind in ("boolean", "integer", "number", "null")]},
    )
    metadata: dict[str, Any] = Field(default_factory=dict, description="Anything that the environment adds")

    @classmethod
    def construct_unchecked(cls, fields: dict[str, Any]) -> Self:
        """An observation without validation, in a fifth of the time, for environments that step in microseconds.

        fields: a value of the right type for every field; the observation keeps the dictionary. The class must have no
        private attributes and no fields that it does not declare.
        """
        observation = _new(cls)
        _put_fields(observation, fields)
        _put_fields_set(observation, _fields_of(cls).copy())
        _put_extra(observation, None)
        _put_private(observation, None)
        return observation


class State(AwaitsItself, DataclassMessage):
    """Identity and progress of an episode. Further fields are allowed."""

    model_config = ConfigDict(extra="allow", validate_assignment=True, arbitrary_types_allowed=True)

    episode_id: str | None = Field(default=None, description="Identity of the current episode")
    step_count: int = Field(default=0, ge=0, description="Steps taken since the reset")


class OpenAction(Action):
    """The action of an environment that declares no action class: it takes any field."""

    model_config = ConfigDict(extra="allow")


class EnvironmentMetadata(BaseModel):
    """The response of `/metadata`."""

    name: str
    description: str
    readme_content: str | None = None
    version: str | None = None
    author: str | None = None
    documentation_url: str | None = None


class HealthStatus(StrEnum):
    """The states that `/health` can report."""

    HEALTHY = "healthy"
    UNHEALTHY = "unhealthy"
    DEGRADED = "degraded"


class ServerMode(StrEnum):
    """Simulation serves reset, step and state over plain HTTP; production does not."""

    SIMULATION = "simulation"
    PRODUCTION = "production"

    @classmethod
    def _missing_(cls, value: object) -> "ServerMode":
        """Raises ValueError that lists the modes."""
        raise ValueError(f"mode={value!r}: must be one of {', '.join(map(repr, map(str, cls)))}")


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
    """Response to a reset or a step over HTTP."""

    observation: dict[str, Any]
    reward: float | None = None
    done: bool = False
    metadata: dict[str, Any] | None = None
    session_id: str | None = None


ResetResponse = StepResponse


class ListTasksRequest(BaseMessage):
    """Body of `POST /{env_name}/tasks`."""

    split: str


class NumTasksRequest(BaseMessage):
    """Body of `POST /{env_name}/num_tasks`."""

    split: str


class GetTaskRequest(BaseMessage):
    """Body of `POST /{env_name}/task`."""

    split: str
    index: int = Field(strict=True)


class GetTaskRangeRequest(BaseMessage):
    """Body of `POST /{env_name}/task_range`: the tasks from `start` up to, without, `stop`."""

    split: str
    start: int | None = Field(default=None, strict=True)
    stop: int | None = Field(default=None, strict=True)


class SchemaResponse(BaseModel):
    """JSON Schemas of the environment's messages, at `/schema`."""

    action: dict[str, Any]
    observation: dict[str, Any]
    state: dict[str, Any]
    reset_observation: dict[str, Any] | None = None


class HealthResponse(BaseModel):
    """Body of `/health`."""

    status: HealthStatus = HealthStatus.HEALTHY
