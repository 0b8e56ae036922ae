"""Action, observation and state of the snake environment."""

from typing import Literal

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State

Direction = Literal["north", "south", "west", "east"]
Thing = Literal["free", "food", "body", "wall"]


class SnakeAction(Action):
    """The head's next step. Backwards is not legal."""

    direction: Direction = Field(description="Where the head goes")


class SnakeObservation(Observation):
    """The snake and its food. Rows count from the north, columns from the west, both from 0."""

    METADATA_IS_PLAIN_JSON = True

    head_row: int = Field(description="Row of the head, 0 is the north")
    head_column: int = Field(description="Column of the head, 0 is the west")
    food_row: int | None = Field(description="Row of the food; none when the snake fills the board")
    food_column: int | None = Field(description="Column of the food")
    direction: Direction = Field(description="Where the head looks")
    ahead: Thing = Field(description="What the head meets straight on")
    left: Thing = Field(description="What it meets if it turns left")
    right: Thing = Field(description="What it meets if it turns right")
    length: int = Field(description="Cells of the snake")
    hunger: int = Field(description="Steps until the snake starves without food")
    body: list[list[int]] = Field(description="Row and column of each cell of the snake, from the head to the tail")
    board: str = Field(description="Rows from the north: H head, o body, t tail, F food, . free")
    legal_actions: list[Direction] = Field(description="All directions but backwards")


class SnakeState(State):
    """The episode's board and what happened on it."""

    size: int = 0
    """Rows, and columns, of the board."""
    max_steps: int = 0
    """Steps after which the episode is truncated."""
    hunger: int = 0
    """Steps without food after which the snake starves."""
    score: int = 0
    """Pieces of food that were eaten."""
    ending: str = ""
    """Why the episode is over: wall, body, hunger, full or steps; empty while it goes on."""
    seed: int = 0
    """Determines where food appears."""
