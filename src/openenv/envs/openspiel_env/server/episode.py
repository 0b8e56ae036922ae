"""An episode of a game from one seat: after each action of the agent, chance and the other seats move."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyspiel

from openenv.envs.openspiel_env.models import OpenSpielAction
from openenv.envs.openspiel_env.server.games import (
    apply_action,
    chance_outcomes,
    current_player,
    new_initial_state,
    player_return,
)
from openenv.envs.openspiel_env.server.opponents import Opponent, make_opponents
from openenv.envs.openspiel_env.server.prepared_game import PreparedGame
from openenv.envs.openspiel_env.server.rng import Rng

CHANCE = pyspiel.PlayerId.CHANCE
SIMULTANEOUS = pyspiel.PlayerId.SIMULTANEOUS
NO_CHOICE = 0
"""The action that OpenSpiel expects, in a joint move, from a seat without legal actions."""
_UNIT = 2.0**-32
_MAX_LISTED_ACTIONS = 50


@dataclass(slots=True)
class Episode:
    """A game in progress."""

    prepared: PreparedGame
    rng: Rng
    state: Any
    """The `pyspiel.State`."""
    opponents: dict[int, Opponent]
    seed: int
    reveal_history: bool = False
    actions: list[int] = field(default_factory=list)
    """The agent's actions, in order."""
    phase: str = "initial"
    """`initial`, `playing` or `terminal`."""
    player: int = 0
    """The seat to act, or OpenSpiel's number for chance, simultaneous moves or the end."""
    opponent_last_action: int | None = None
    rewarded: float = 0.0
    """The part of the agent's return that earlier steps have reported."""
    legal: Sequence[int] | None = None
    """The agent's legal actions, where an observation since the last move has them."""

    def restart(self, prepared: PreparedGame) -> None:
        """Start the next game with the same opponents. The random stream continues."""
        self.prepared, self.state = prepared, new_initial_state(prepared.game)
        self.actions.clear()
        self.phase, self.opponent_last_action, self.rewarded, self.legal = "initial", None, 0.0, None


def start_episode(prepared: PreparedGame, rng: Rng, seed: int, *, reveal_history: bool = False) -> Episode:
    """Return a new episode before its first move. rng: random numbers for chance and the opponents."""
    opponents = make_opponents(prepared.game, prepared.agent, prepared.opponents, rng)
    return Episode(prepared, rng, new_initial_state(prepared.game), opponents, seed, reveal_history)


def check_action(episode: Episode, action: OpenSpielAction) -> None:
    """Raise ValueError, listing the legal actions, unless the agent may take the action now."""
    choice = episode.prepared.choice
    check_legal(
        action, episode.state, episode.prepared.agent, choice.game_name, choice.game_params, legal=episode.legal
    )


def check_legal(
    action: OpenSpielAction,
    state: Any,
    seat: int,
    game_name: str,
    game_params: Mapping[str, Any],
    *,
    legal: Sequence[int] | None = None,
) -> None:
    """Raise ValueError, listing the legal actions, unless a seat may take the action in a state.

    legal: the seat's legal actions, where they are known.
    """
    if action.game_name and action.game_name != game_name:
        raise ValueError(f"game_name={action.game_name!r}: this session plays {game_name!r}. Leave it out, or reset.")
    if action.game_params and action.game_params != game_params:
        raise ValueError(f"game_params={action.game_params!r}: this session plays with {game_params!r}.")
    if state.is_terminal():
        raise ValueError("The game is over: reset() starts a new one.")
    legal = state.legal_actions(seat) if legal is None else legal
    if action.action_id not in legal:
        names = ", ".join(f"{a} ({state.action_to_string(seat, a)})" for a in legal[:_MAX_LISTED_ACTIONS])
        more = f" and {len(legal) - _MAX_LISTED_ACTIONS} more" if len(legal) > _MAX_LISTED_ACTIONS else ""
        raise ValueError(f"action_id={action.action_id} is not legal now. Legal: {names}{more}.")


def advance(episode: Episode, agent_action: int) -> None:
    """Apply a legal action and all moves until the agent's next decision, or the end."""
    episode.legal = None
    if episode.prepared.is_sequential:
        apply_action(episode.state, agent_action)
    else:
        apply_jointly(episode, agent_action)
    episode.actions.append(agent_action)
    episode.phase = "playing"
    play_until_agent(episode)


def apply_jointly(episode: Episode, agent_action: int) -> None:
    """Apply the agent's action, together with those of the other seats where all move at once."""
    state = episode.state
    if not state.is_simultaneous_node():
        state.apply_action(agent_action)
        return
    joint = [NO_CHOICE] * state.num_players()
    agent = episode.prepared.agent
    if state.legal_actions(agent):
        joint[agent] = agent_action
    for seat, opponent in episode.opponents.items():
        if state.legal_actions(seat):
            joint[seat] = int(opponent(state, seat))
            episode.opponent_last_action = joint[seat]
    state.apply_actions(joint)


def play_until_agent(episode: Episode) -> None:
    """Apply the moves of chance and of the other seats until the agent has a choice or the game is over."""
    state, agent = episode.state, episode.prepared.agent
    while (player := current_player(state)) != agent:
        if player >= 0:
            action = episode.opponents[player](state, player)
            apply_action(state, action)
            episode.opponent_last_action = action
        elif player == CHANCE:
            apply_action(state, sample_chance(state, episode.rng))
        elif player == SIMULTANEOUS:
            if state.legal_actions(agent):
                break
            apply_jointly(episode, NO_CHOICE)
        else:
            episode.phase = "terminal"
            break
    episode.player = player


def sample_chance(state: Any, rng: Rng) -> int:
    """Sample a chance outcome by the probabilities of the game."""
    outcomes = chance_outcomes(state)
    point = next(rng) * _UNIT
    for action, probability in outcomes:
        point -= probability
        if point < 0:
            return int(action)
    return int(outcomes[-1][0])  # rounding: the probabilities summed to slightly less than 1


def collect_reward(episode: Episode) -> float:
    """Return the agent's reward since the last call. These rewards sum to the game's return.

    They are differences of returns, because `rewards()` of some games repeats the last reward after a chance move.
    """
    total: float = player_return(episode.state, episode.prepared.agent)
    if total == episode.rewarded:
        return 0.0
    reward, episode.rewarded = total - episode.rewarded, total
    return round(reward, 9)
