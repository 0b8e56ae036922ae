"""Action, observation and state of Atari games."""

from typing import Literal

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State
from openenv.core.wire.arrays import Array

ObsType = Literal["rgb", "grayscale", "ram"]


class AtariAction(Action):
    """A position of the joystick and its button, by its number among the legal actions."""

    action_id: int = Field(ge=0, description="One of the observation's legal_actions")


class AtariObservation(Observation):
    """What the console shows, or what is in its memory.

    Every observation's `metadata` contains `game_name`, `obs_type`, and `legal_action_names` such as `NOOP`, `FIRE`,
    `UPLEFT`. The metadata of the first observation also contains `seed`, `available_modes` and
    `available_difficulties`.
    """

    METADATA_IS_PLAIN_JSON = True

    screen: Array = Field(
        description="uint8: the frame [height, width, 3] for rgb, [height, width] for grayscale; the 128 bytes of the "
        "console's memory for ram"
    )
    legal_actions: list[int] = Field(
        default_factory=list, description="Numbers of the actions, always those from 0; empty when done"
    )
    lives: int = Field(default=0, description="Lives that are left; 0 in games without lives")
    episode_frame_number: int = Field(default=0, description="Frames since the episode's start")
    truncated: bool = Field(default=False, description="Whether a limit of frames or steps has ended the episode")


class AtariState(State):
    """The game of an episode and how it is played."""

    game_name: str = Field(default="", description="The game's name in snake_case, such as ms_pacman")
    obs_type: ObsType = Field(default="rgb", description="What `screen` holds")
    frameskip: int = Field(default=4, description="Frames for which an action is repeated")
    repeat_action_probability: float = Field(
        default=0.25, description="Probability that a frame repeats the action of the frame before"
    )
    full_action_space: bool = Field(default=False, description="Whether all 18 actions are legal, or the game's own")
    mode: int | None = Field(default=None, description="The game's mode; null: its default")
    difficulty: int | None = Field(default=None, description="The game's difficulty; null: its default")
    max_frames: int = Field(default=108_000, description="Limit of frames of an episode")
    max_steps: int | None = Field(default=None, description="Limit of steps of an episode; null: none")
