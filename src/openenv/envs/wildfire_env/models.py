"""Action, observation and state of the wildfire environment."""

from typing import Literal

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State

Kind = Literal["water", "firebreak", "wait"]
Wind = Literal["none", "north", "east", "south", "west"]


class WildfireAction(Action):
    """One of three things to do before the fire spreads again."""

    kind: Kind = Field(description="Drop water on a burning cell, cut a firebreak, or wait")
    row: int = Field(default=0, description="Row of the cell, 0 is the north; not read for wait")
    column: int = Field(default=0, description="Column of the cell, 0 is the west; not read for wait")


class WildfireObservation(Observation):
    """The forest and what is left to fight the fire. Rows count from the north, columns from the west, both from 0."""

    METADATA_IS_PLAIN_JSON = True

    burning: list[list[int]] = Field(description="Row and column of each burning cell")
    wind: Wind = Field(description="Where the wind blows to")
    water: int = Field(description="Water drops left")
    firebreaks: int = Field(description="Firebreaks left")
    trees: int = Field(description="Cells with trees that have not caught fire")
    board: str = Field(
        description="Rows from the north: T dry trees, t moist trees, * fire, # burnt, ~ wet, = firebreak"
    )
    legal_actions: list[dict[str, int | str]] = Field(
        description="Water on each burning cell, a firebreak in trees up to two cells from fire, and wait"
    )


class WildfireState(State):
    """The episode's forest."""

    size: int = 0
    """Rows, and columns, of the forest."""
    wind: Wind = "none"
    spread: float = 0.0
    """Chance that a burning cell lights dry trees beside it in a step without wind."""
    caught: int = 0
    """Cells that have caught fire since the reset."""
    seed: int = 0
    """Determines the forest, the wind and the fire."""
