"""Messages of the beacon: enumerations, nested models, and fields of any name."""

from enum import Enum
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from openenv.core.env_server.interfaces import Action, Observation, State


class Colour(str, Enum):  # noqa: UP042
    RED = "RED"
    GREEN = "GREEN"


class Flash(BaseModel):
    """One flash."""

    colour: Colour
    at_step: int


class BeaconAction(Action):
    """Switch the light."""

    model_config = ConfigDict(extra="forbid", validate_assignment=True, arbitrary_types_allowed=True)
    colour: Colour = Field(..., description="The colour to show")
    kind: Literal["flash", "hold"] = "flash"


class BeaconObservation(Observation):
    """What ships see."""

    flashes: list[Flash] = Field(default_factory=list)
    result: str | None = None

    @field_validator("result")
    @classmethod
    def short(cls, value):
        return value and value[:20]


class BeaconState(State):
    """The episode so far, with fields that are not declared."""

    flashes_left: int = 3
