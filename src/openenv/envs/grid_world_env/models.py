"""Action, observation and state of the grid world environment."""

from typing import Literal

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State

Direction = Literal["north", "south", "west", "east"]


class GridWorldAction(Action):
    """A step to a neighbouring cell. Against an obstacle or the edge the player stays, and the step counts."""

    direction: Direction = Field(description="Where to go")


class GridWorldObservation(Observation):
    """Where the player and the goal are. Rows count from the north, columns from the west, both from 0."""

    METADATA_IS_PLAIN_JSON = True

    row: int = Field(description="Row of the player, 0 is the north")
    column: int = Field(description="Column of the player, 0 is the west")
    goal_row: int = Field(description="Row of the goal")
    goal_column: int = Field(description="Column of the goal")
    free: list[Direction] = Field(description="Directions without an obstacle or the edge")
    slip: float = Field(description="Chance that a step goes to a side instead, half to each")
    steps_left: int = Field(description="Steps until the episode is truncated")
    board: str = Field(description="Rows from the north: A player, G goal, # obstacle, . free")


class GridWorldState(State):
    """The episode's grid."""

    num_rows: int = 0
    num_columns: int = 0
    slip: float = 0.0
    """Chance that a step goes to a side instead."""
    max_steps: int = 0
    """Steps after which the episode is truncated."""
    shortest: int = 0
    """Steps of the shortest way from the start to the goal."""
    seed: int = 0
    """Determines the obstacles and the slips."""
