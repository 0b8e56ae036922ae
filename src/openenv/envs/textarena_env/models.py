"""Action, observation and state of TextArena's games."""

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State


class TextArenaAction(Action):
    """What the seat to act writes."""

    message: str = Field(max_length=10_000, description="The reply in the form that the game asks for, such as [4]")


class TextArenaObservation(Observation):
    """What the seat to act has been sent since its last turn.

    Every observation's `metadata` contains `game`, `agent_player` (the seat to act) and `rewards`, the reward of each
    seat since the observation before. That of the first also contains `seed` and `num_players`, and that of the last
    `reasons`, what the game gives as the reason of its end for each seat.
    """

    METADATA_IS_PLAIN_JSON = True

    text: str = Field(description="The messages of the game and of the other seats, a line each")
    examples: list[str] = Field(
        default_factory=list,
        description="Replies in the form that the messages show in square brackets; not all are legal",
    )


class TextArenaState(State):
    """The game of an episode."""

    game: str = Field(default="", description="TextArena's name of the game")
    num_players: int = Field(default=1, ge=1, description="Seats; the caller acts for all of them")
