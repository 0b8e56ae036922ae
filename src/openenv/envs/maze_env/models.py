"""Action, observation and state of the maze environment."""

from typing import Literal

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State

Direction = Literal["north", "south", "west", "east"]


class MazeAction(Action):
    """A step to a neighbouring cell."""

    direction: Direction = Field(description="Where to go")


class MazeObservation(Observation):
    """Where the player and the goal are. Rows count from the north, columns from the west, both from 0."""

    row: int = Field(description="Row of the player, 0 is the north")
    column: int = Field(description="Column of the player, 0 is the west")
    goal_row: int = Field(description="Row of the goal")
    goal_column: int = Field(description="Column of the goal")
    came_from: Direction | None = Field(default=None, description="Direction of the cell from which the player came")
    legal_actions: list[Direction] = Field(description="Directions without a wall")


class MazeState(State):
    """The episode's maze."""

    size: int = 0
    """Rows, and columns, of the maze."""
    max_steps: int = 0
    """Steps after which the episode is truncated."""
    shortest: int = 0
    """Steps of the shortest way from the start to the goal."""
