"""Action, observation and state of Gymnasium environments."""

from typing import Any

from pydantic import Field, field_validator

from openenv.core.env_server.types import Action, Observation, State
from openenv.core.wire.arrays import JsonOrArray
from openenv.formats.images import Image


class GymnasiumAction(Action):
    """An element of the action space, as JSON. A numpy array or number becomes lists or a number."""

    value: int | float | list[Any] | dict[str, Any] | str = Field(
        description="An element of the action space: an int of a Discrete space, a list of numbers of a Box"
    )

    @field_validator("value", mode="before")
    @classmethod
    def _without_numpy(cls, value: Any) -> Any:
        return value.tolist() if hasattr(value, "tolist") else value


class GymnasiumObservation(Observation):
    """What Gymnasium returns.

    Every observation's `metadata` contains `env_id`, `action_space`, `env_options` where any were given, `info` where
    Gymnasium returns any, and `legal_action_names` where the actions have names. The metadata of the first observation
    also contains `observation_space` and `seed`.
    """

    METADATA_IS_PLAIN_JSON = True

    value: JsonOrArray = Field(
        default=0, description="An element of the observation space: an int, a list of numbers, nested by dimension, "
        "a list for a Tuple, an object for a Dict. Images and arrays of more than 64 numbers are numpy arrays"
    )  # fmt: skip
    truncated: bool = Field(default=False, description="Whether a limit of steps has ended the episode")
    legal_actions: list[int] = Field(
        default_factory=list,
        description="Actions of a Discrete space; with an action mask, those that it allows. Empty when done",
    )
    pixels: Image | None = Field(
        default=None, description="The rendered frame, a PNG file in base64, after a reset with `render: true`"
    )


class GymnasiumState(State):
    """The environment of an episode."""

    env_id: str = Field(default="", description="Gymnasium's id, such as CartPole-v1")
    env_options: dict[str, Any] = Field(default_factory=dict, description="Keywords of gymnasium.make")
    max_steps: int | None = Field(default=None, description="Limit of steps; null: the registered one")
    render: bool = Field(default=False, description="Whether observations carry the rendered frame")
