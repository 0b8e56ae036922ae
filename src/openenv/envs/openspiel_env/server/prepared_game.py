"""A choice of game, seat and opponents, validated and loaded: what all of its episodes share."""

from dataclasses import dataclass
from typing import Any

import pyspiel

from openenv.envs.openspiel_env.server.games import (
    is_stateful,
    load_game_for_episode,
    rewards_only_at_end,
    success_return_of,
)
from openenv.envs.openspiel_env.server.opponents import opponent_policies
from openenv.envs.openspiel_env.server.rng import Rng
from openenv.envs.openspiel_env.server.seat_view import OpeningCache, SeatView, make_seat_view, opening_cache_of
from openenv.hosting.serving.settings import option


@dataclass(frozen=True, kw_only=True)
class GameChoice:
    """Which game an episode plays, from which seat, against which policies."""

    game_name: str = option("catch", "Play this game by OpenSpiel's short name", name="game")
    game_params: dict[str, Any] = option(
        {}, "Parameters that differ from the game's defaults, as a JSON object", metavar='{"players": 3}'
    )
    agent_player: int = option(0, "Let the agent play this seat, from 0")
    opponent_policy: str | list[str] = option(
        "random",
        "Let random, first, last or mcts play the other seats; a comma-separated list names one for each",
        name="opponent",
        variable="OPENSPIEL_OPPONENT_POLICY",
    )


@dataclass(frozen=True, slots=True)
class PreparedGame:
    """A loaded game. All episodes of a choice share one, except that each episode of a stateful game has its own."""

    choice: GameChoice
    agent: int
    """The agent's seat."""
    game: Any
    """The `pyspiel.Game`."""
    view: SeatView
    opponents: list[str]
    """The policies of the other seats, in the order of the seats."""
    metadata: dict[str, Any]
    """What every observation's metadata contains."""
    opening_cache: OpeningCache | None
    """What the agent observes first; None where the game is stateful."""
    is_sequential: bool
    """Whether seats always move one at a time."""
    rewards_only_at_end: bool
    """Whether all rewards before the end are 0."""
    success_return: float | None
    """Of a game that is won or lost; None where returns are scores."""

    @property
    def is_stateful(self) -> bool:
        """Whether playing changes the game object, so that each episode needs a prepared game of its own."""
        return self.opening_cache is None


def prepare_game(choice: GameChoice, rng: Rng, *, reveal_history: bool = False) -> PreparedGame:
    """Validate a choice and load its game. rng: seeds the object of a stateful game.

    Raises ValueError, naming the field, where the choice cannot be played, or where `reveal_history` would show hidden
    information.
    """
    game = load_game_for_episode(choice.game_name, choice.game_params, rng)
    agent, num_players = choice.agent_player, game.num_players()
    if not 0 <= agent < num_players:
        seats = "seat 0 only" if num_players == 1 else f"seats 0 to {num_players - 1}"
        raise ValueError(f"agent_player={agent}: {choice.game_name!r} has {seats}.")
    view = make_seat_view(game, agent)
    if reveal_history and not view.shows_history:
        raise ValueError(
            f"reveal_history=True: {choice.game_name!r} hides something from its players, moves all seats at once, or "
            "samples its chance events inside, so its history cannot be shown. Leave reveal_history out."
        )
    metadata = {"game_name": choice.game_name, "agent_player": agent, "info_state_kind": view.kind}
    if choice.game_params:
        metadata["game_params"] = choice.game_params
    return PreparedGame(
        choice,
        agent,
        game,
        view,
        opponent_policies(game, choice.opponent_policy),
        metadata,
        None if is_stateful(game) else opening_cache_of(choice.game_name, choice.game_params, agent),
        is_sequential=game.get_type().dynamics == pyspiel.GameType.Dynamics.SEQUENTIAL,
        rewards_only_at_end=rewards_only_at_end(game),
        success_return=success_return_of(game),
    )
