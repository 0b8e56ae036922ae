"""A game that is being played from one seat: the other seats and chance move in between."""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import pyspiel

from openenv.envs.openspiel_env.models import OpenSpielAction
from openenv.envs.openspiel_env.server.draws import Draws
from openenv.envs.openspiel_env.server.games import is_changed_by_play, load_for_episode, pays_at_the_end
from openenv.envs.openspiel_env.server.openings import Openings, openings_of
from openenv.envs.openspiel_env.server.opponents import Opponent, check_opponent_policy, make_opponents
from openenv.envs.openspiel_env.server.spiel import (
    apply_action,
    chance_outcomes,
    current_player,
    new_initial_state,
    player_return,
)
from openenv.envs.openspiel_env.server.views import View, view_of

CHANCE = pyspiel.PlayerId.CHANCE
SIMULTANEOUS = pyspiel.PlayerId.SIMULTANEOUS
_UNIT = 2.0**-32
NOBODY_CAN_CHOOSE = 0
"""What OpenSpiel expects, in a joint move, from a seat without legal actions."""


@dataclass(frozen=True, kw_only=True)
class GameChoice:
    """Which game, from which seat, against whom."""

    game_name: str = "catch"
    """OpenSpiel's short name."""
    game_params: dict[str, Any] = field(default_factory=dict)
    """Its parameters; those left out have OpenSpiel's defaults."""
    agent_player: int = 0
    """The agent's seat, from 0."""
    opponent_policy: str | list[str] = "random"
    """random, first, last or mcts: one for all other seats, or a list with one for each."""


@dataclass(slots=True)
class Episode:
    """A game being played."""

    table: "Table"
    draws: Draws
    state: Any
    opponents: dict[int, Opponent]
    seed: int
    reveal_history: bool
    actions: list[int] = field(default_factory=list)
    """The agent's, in order."""
    phase: str = "initial"
    player: int = 0
    """Whose turn it is, as OpenSpiel numbers seats, chance and the end."""
    opponent_last_action: int | None = None
    total_reward: float = 0.0
    legal: Sequence[int] | None = None
    """What the agent may do, where it was told since the last move."""

    def restart(self, table: "Table") -> None:
        """Begin another game with the same players, whose random numbers go on."""
        self.table, self.state = table, new_initial_state(table.game)
        self.actions.clear()
        self.phase, self.opponent_last_action, self.total_reward, self.legal = "initial", None, 0.0, None


@dataclass(frozen=True, slots=True)
class Table:
    """What all episodes of one choice have in common; where play changes the game, one episode has it."""

    choice: GameChoice
    agent: int
    """Its seat."""
    game: Any
    view: View
    opponents: list[str]
    """The policies on the other seats, in their order."""
    facts: dict[str, Any]
    """What the metadata of every observation say of it."""
    openings: Openings | None
    """What the agent sees first; None where play changes the game."""
    is_sequential: bool
    """Whether seats move one at a time, always."""
    pays_at_the_end: bool
    """Whether nothing is gained or lost before the end."""

    @property
    def is_changed_by_play(self) -> bool:
        """Whether every game needs a table of its own."""
        return self.openings is None

    def begin(self, draws: Draws, seed: int, *, reveal_history: bool = False) -> Episode:
        """A new game before its first move. draws: what chance and opponents draw from."""
        opponents = make_opponents(self.game, self.agent, self.opponents, draws)
        return Episode(self, draws, new_initial_state(self.game), opponents, seed, reveal_history)


def set_table(choice: GameChoice, draws: Draws, *, reveal_history: bool = False) -> Table:
    """A game made ready for its episodes. Raises ValueError where the choice cannot be played."""
    game = load_for_episode(choice.game_name, choice.game_params, draws)
    num_players = game.num_players()
    if not 0 <= choice.agent_player < num_players:
        seats = "seat 0 only" if num_players == 1 else f"seats 0 to {num_players - 1}"
        raise ValueError(f"agent_player={choice.agent_player}: {choice.game_name!r} has {seats}.")
    view = view_of(game, choice.agent_player)
    if reveal_history and not view.shows_history:
        raise ValueError(
            f"reveal_history=True: {choice.game_name!r} hides something from its players, moves all seats at once, or "
            "draws its chances inside itself, so its history cannot be shown. Leave reveal_history out."
        )
    names = check_opponent_policy(choice.opponent_policy, num_players)
    openings = (
        None if is_changed_by_play(game) else openings_of(choice.game_name, choice.game_params, choice.agent_player)
    )
    facts = {"game_name": choice.game_name, "agent_player": choice.agent_player, "info_state_kind": view.kind}
    if choice.game_params:
        facts["game_params"] = choice.game_params
    return Table(
        choice,
        choice.agent_player,
        game,
        view,
        names,
        facts,
        openings,
        is_sequential=game.get_type().dynamics == pyspiel.GameType.Dynamics.SEQUENTIAL,
        pays_at_the_end=pays_at_the_end(game),
    )


def check_action(episode: Episode, action: OpenSpielAction) -> None:
    """Raises ValueError, saying what is legal, unless the action may be taken now."""
    choice, state = episode.table.choice, episode.state
    if action.game_name and action.game_name != choice.game_name:
        raise ValueError(
            f"game_name={action.game_name!r}: this session plays {choice.game_name!r}. Leave it out, or reset."
        )
    if action.game_params and action.game_params != choice.game_params:
        raise ValueError(f"game_params={action.game_params!r}: this session plays with {choice.game_params!r}.")
    legal = episode.legal
    if legal is None:
        legal = [] if state.is_terminal() else state.legal_actions(choice.agent_player)
    if action.action_id not in legal:
        if state.is_terminal():
            raise ValueError("The game is over: reset() starts a new one.")
        names = ", ".join(f"{a} ({state.action_to_string(choice.agent_player, a)})" for a in legal[:50])
        more = f" and {len(legal) - 50} more" if len(legal) > 50 else ""
        raise ValueError(f"action_id={action.action_id} is not legal now. Legal: {names}{more}.")


def advance(episode: Episode, agent_action: int) -> None:
    """Play a legal action and all that follows until the agent's next decision, or the end."""
    episode.legal = None
    if episode.table.is_sequential:
        apply_action(episode.state, agent_action)
    else:
        apply_together(episode, agent_action)
    episode.actions.append(agent_action)
    episode.phase = "playing"
    play_until_agent(episode)


def apply_together(episode: Episode, agent_action: int) -> None:
    """The agent's action, with those of the other seats where all move at once."""
    state = episode.state
    if not state.is_simultaneous_node():
        state.apply_action(agent_action)
        return
    joint = [NOBODY_CAN_CHOOSE] * state.num_players()
    agent = episode.table.agent
    if state.legal_actions(agent):
        joint[agent] = agent_action
    for seat, opponent in episode.opponents.items():
        if state.legal_actions(seat):
            joint[seat] = int(opponent(state, seat))
            episode.opponent_last_action = joint[seat]
    state.apply_actions(joint)


def play_until_agent(episode: Episode) -> None:
    """Chance and the other seats move until the agent has a choice or the game is over."""
    state, agent = episode.state, episode.table.agent
    while (player := current_player(state)) != agent:
        if player >= 0:
            action = episode.opponents[player](state, player)
            apply_action(state, action)
            episode.opponent_last_action = action
        elif player == CHANCE:
            apply_action(state, chance_action(state, episode.draws))
        elif player == SIMULTANEOUS:
            if state.legal_actions(agent):
                break
            apply_together(episode, NOBODY_CAN_CHOOSE)
        else:
            episode.phase = "terminal"
            break
    episode.player = player


def chance_action(state: Any, draws: Draws) -> int:
    """What chance does next, by the odds that the game tells."""
    outcomes = chance_outcomes(state)
    point = next(draws) * _UNIT
    for action, probability in outcomes:
        point -= probability
        if point < 0:
            return int(action)
    return int(outcomes[-1][0])  # the probabilities summed to a hair less than one


def new_reward(episode: Episode) -> float:
    """What the agent has gained since it was last told; these gains sum to the game's return.

    Differences of returns, since `rewards()` of some games repeats the last reward after a chance move.
    """
    total: float = player_return(episode.state, episode.table.agent)
    if total == episode.total_reward:
        return 0.0
    gained, episode.total_reward = total - episode.total_reward, total
    return round(gained, 9)
