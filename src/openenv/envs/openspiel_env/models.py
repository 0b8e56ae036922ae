"""Action, observation and state of OpenSpiel games."""

from typing import Any, Literal

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State


class OpenSpielAction(Action):
    """A legal action by its OpenSpiel number. A game that it names must be the current one."""

    action_id: int = Field(ge=0, description="One of the observation's legal_actions")
    game_name: str = Field(default="", description="The game this action is for; empty: the current game")
    game_params: dict[str, Any] = Field(default_factory=dict, description="Parameters of that game; empty: not checked")


class OpenSpielObservation(Observation):
    """What the agent's seat may observe.

    Every observation's `metadata` contains `game_name`, `agent_player`, `text` (the seat's view in OpenSpiel's words),
    `legal_action_names`, and `game_params` where any were given. Its `info_state_kind` names what `info_state` is:
    `information_state_tensor`, `observation_tensor`, or `string`, which leaves it empty. The metadata of the first
    observation also contains `seed`, `num_players` and `opponent_policy`.

    With `agent_player="all"` each observation is that of the seat to act, `reward` is that of the seat that has just
    acted, and `rewards` in the metadata has the reward of each seat since the observation before.
    """

    METADATA_IS_PLAIN_JSON = True

    info_state: list[float] = Field(default_factory=list, description="The seat's view as a flat tensor")
    legal_actions: list[int] = Field(default_factory=list, description="Actions that are legal now; empty when done")
    game_phase: str = Field(
        default="initial", description="`initial` after a reset, then `playing`, finally `terminal`"
    )
    current_player_id: int = Field(
        default=0, description="The seat to act: the agent's; -2 when all seats move at once; -4 when the game is over"
    )
    opponent_last_action: int | None = Field(
        default=None, description="Last action of another seat, where the rules show it to the agent"
    )


class OpenSpielState(State):
    """The game, the agent's seat and the opponents of an episode."""

    game_name: str = Field(default="", description="OpenSpiel's short name")
    agent_player: int | Literal["all"] = Field(default=0, description="The agent's seat, counted from 0, or all seats")
    opponent_policy: str | list[str] = Field(
        default="random", description="One policy for all other seats, or one each"
    )
    game_params: dict[str, Any] = Field(default_factory=dict, description="Parameters that differ from the defaults")
    num_players: int = Field(default=1, ge=1, description="Seats in this game, the agent's included")
