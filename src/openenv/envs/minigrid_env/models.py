"""Action, observation and state of MiniGrid environments."""

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State
from openenv.core.wire.arrays import Array
from openenv.formats.images import Image

ACTION_NAMES = ("left", "right", "forward", "pickup", "drop", "toggle", "done")
"""The names of the actions, by their number."""


class MiniGridAction(Action):
    """Turn, walk, or use the cell ahead."""

    action_id: int = Field(
        ge=0, lt=len(ACTION_NAMES),
        description="0 turns left, 1 right, 2 walks forward, 3 picks up, 4 drops, 5 opens or unlocks, 6 is done",
    )  # fmt: skip


class MiniGridObservation(Observation):
    """What the agent sees.

    Every observation's `metadata` contains `env_id`, and `legal_action_names` unless it is the last. The metadata of
    the first observation also contains `seed`.
    """

    METADATA_IS_PLAIN_JSON = True

    image: Array = Field(
        description="The cells ahead, [7, 7, 3] by column, row and (object, colour, state). The agent is in column 3 "
        "of row 6 and looks to row 0; its own cell holds what it carries"
    )
    direction: int = Field(ge=0, le=3, description="Where the agent looks: 0 east, 1 south, 2 west, 3 north")
    mission: str = Field(description="What to do")
    legal_actions: list[int] = Field(default_factory=list, description="Actions of this environment; empty when done")
    truncated: bool = Field(default=False, description="Whether a limit of steps has ended the episode")
    pixels: Image | None = Field(
        default=None, description="The rendered frame, a PNG file in base64, after a reset with `render: true`"
    )


class MiniGridState(State):
    """The environment of an episode."""

    env_id: str = Field(default="", description="MiniGrid's id, such as MiniGrid-DoorKey-5x5-v0")
    max_steps: int | None = Field(default=None, description="Limit of steps; null: the environment's own")
    render: bool = Field(default=False, description="Whether observations carry the rendered frame")
