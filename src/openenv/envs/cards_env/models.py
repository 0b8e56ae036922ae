"""Action, observation and state of the card games."""

from typing import Literal

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State


class CardsAction(Action):
    """A legal action by its RLCard number."""

    action_id: int = Field(ge=0, description="One of the observation's legal_actions")


class CardsObservation(Observation):
    """What a seat may see. Cards are rank and suit, such as QH, or as the game writes them.

    With `agent_player="all"` each observation is that of the seat to act, `reward` is that of the seat that has just
    acted, and the metadata has `agent_player`, the seat to act, and the `rewards` of every seat.
    """

    METADATA_IS_PLAIN_JSON = True

    game: str = Field(description="Name of the game")
    seat: int = Field(description="The seat that sees this, counted from 0")
    hand: list[str] = Field(description="The seat's own cards")
    public: str = Field(description="What every seat sees, in words")
    moves: list[str] = Field(description="What the seats have done since this seat's last turn, its own move first")
    legal_actions: list[int] = Field(description="RLCard's numbers of the legal actions; empty when done")
    legal_action_names: list[str] = Field(description="Their names, in the same order")
    info_state: list[float] = Field(
        default=[], description="RLCard's numbers of what the seat sees, with reset(features=True); else empty"
    )


class CardsState(State):
    """The game, the seats and the opponents of an episode."""

    game: str = ""
    agent_player: int | Literal["all"] = 0
    """The agent's seat, counted from 0, or all seats."""
    num_players: int = 1
    """Seats, the agent's included."""
    opponent_policy: str = "random"
    """How the other seats play: random or rule."""
    features: bool = False
    """Whether observations have `info_state`."""
    seed: int = 0
    """Determines the cards and the opponents."""
