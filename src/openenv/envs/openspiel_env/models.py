"""What travels between a player of an OpenSpiel game and the server: action, observation, state."""

from typing import Any

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State


class OpenSpielAction(Action):
    """One legal action by its OpenSpiel number. A game named beside it must be the one being played."""

    action_id: int = Field(ge=0, description="One of the observation's legal_actions")
    game_name: str = Field(
        default="", description="The game this action is meant for; empty: whichever is being played"
    )
    game_params: dict[str, Any] = Field(default_factory=dict, description="Its parameters; empty: not checked")


class OpenSpielObservation(Observation):
    """What the agent's seat may see, and nothing more.

    `metadata` carries on every observation `game_name`, `game_params` where any were given, `agent_player`,
    `info_state_kind` (`information_state_tensor`, `observation_tensor` or `string`: what `info_state` is, empty for
    `string`), `text` (OpenSpiel's own words for what this seat sees) and `legal_action_names` (one for each); on the
    first observation of an episode also `seed`, `num_players` and `opponent_policy`.
    """

    METADATA_IS_JSON = True

    info_state: list[float] = Field(default_factory=list, description="The seat's view as numbers, row by row")
    legal_actions: list[int] = Field(default_factory=list, description="Actions that may be taken now; empty when done")
    game_phase: str = Field(
        default="initial", description="`initial` after a reset, then `playing`, at last `terminal`"
    )
    current_player_id: int = Field(
        default=0,
        description="Whose turn it is: the agent's seat; -2 when all seats move at once; -4 when the game is over",
    )
    opponent_last_action: int | None = Field(
        default=None, description="Last action of another seat, where the rules let the agent see it"
    )


class OpenSpielState(State):
    """Which game is being played, from which seat, against whom."""

    game_name: str = Field(default="", description="OpenSpiel's short name")
    agent_player: int = Field(default=0, ge=0, description="The agent's seat, counted from 0")
    opponent_policy: str | list[str] = Field(
        default="random", description="One policy for all other seats, or one each"
    )
    game_params: dict[str, Any] = Field(default_factory=dict, description="Parameters that differ from the defaults")
    num_players: int = Field(default=1, ge=1, description="Seats in this game, the agent's included")
