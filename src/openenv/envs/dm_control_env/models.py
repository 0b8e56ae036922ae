"""Action, observation and state of the DeepMind Control Suite."""

from typing import Any

from pydantic import Field, field_validator

from openenv.core.env_server.types import Action, Observation, State
from openenv.formats.images import Image


class DMControlAction(Action):
    """The controls of all actuators. A numpy array becomes a list."""

    values: list[float] = Field(
        description="One number for each actuator, within the bounds of the action space",
        examples=[[-1.0], [0.0], [1.0]],
    )

    @field_validator("values", mode="before")
    @classmethod
    def _without_numpy(cls, value: Any) -> Any:
        return value.tolist() if hasattr(value, "tolist") else value


class DMControlObservation(Observation):
    """What a task observes. All its rewards are from 0 to 1, LQR's excepted.

    Every observation's `metadata` contains `domain_name`, `task_name` and `action_space`. The metadata of the first
    observation also contains `observation_space` (the shape of each part) and `seed`.
    """

    METADATA_IS_PLAIN_JSON = True

    observations: dict[str, list[float]] = Field(
        default_factory=dict, description="The numbers of each part of the observation, row by row"
    )
    discount: float = Field(default=1.0, description="0 where the task itself has ended the episode, else 1")
    truncated: bool = Field(default=False, description="Whether a limit of time or steps has ended the episode")
    pixels: Image | None = Field(
        default=None, description="The rendered frame, a PNG file in base64, after a reset with `render: true`"
    )


class DMControlState(State):
    """The task of an episode."""

    domain_name: str = Field(default="", description="The body, such as cheetah")
    task_name: str = Field(default="", description="What it has to do, such as run")
    max_steps: int | None = Field(default=None, description="Limit of steps; null: the task's own limit of time")
    render: bool = Field(default=False, description="Whether observations carry the rendered frame")
    width: int = Field(default=320, description="Width of the frame, in pixels")
    height: int = Field(default=240, description="Height of the frame, in pixels")
    camera_id: int = Field(default=0, description="The camera's number in the model; -1: the free camera")
