"""Who sits on the seats that the agent leaves: random, first, last or mcts."""

from collections.abc import Callable, Sequence
from typing import Any

import pyspiel

from openenv.envs.openspiel_env.server.draws import Draws, draw_bits
from openenv.envs.openspiel_env.server.games import unknown
from openenv.envs.openspiel_env.server.spiel import legal_actions

Opponent = Callable[[Any, int], int]
"""From the game's state and a seat to that seat's action."""

RANDOM = "random"
POLICY_NAMES = (RANDOM, "first", "last", "mcts")
MCTS_SIMULATIONS = 100
MCTS_EXPLORATION = 2.0
MCTS_MEMORY_MB = 64


def check_opponent_policy(opponent_policy: object, num_players: int) -> list[str]:
    """One policy name for each seat that is not the agent's, in the order of the seats.

    Raises ValueError for an unknown name, or for a list of another length than there are other seats.
    """
    names = [opponent_policy] * (num_players - 1) if isinstance(opponent_policy, str) else opponent_policy
    if not isinstance(names, list | tuple):
        raise ValueError(
            f"opponent_policy={opponent_policy!r}: one of {', '.join(POLICY_NAMES)}, or a list of them, is wanted."
        )
    for name in [opponent_policy] if isinstance(opponent_policy, str) else names:
        if name not in POLICY_NAMES:
            raise unknown("opponent_policy", name, POLICY_NAMES)
    if len(names) != num_players - 1:
        raise ValueError(
            f"opponent_policy={list(names)!r} names {len(names)} seats, but this game has {num_players - 1} beside the "
            "agent's. Give one name for all, or one for each."
        )
    return list(names)


def make_opponents(game: Any, agent_player: int, names: Sequence[str], draws: Draws) -> dict[int, Opponent]:
    """An opponent for every seat but the agent's, who all draw from `draws`.

    Raises ValueError where mcts cannot play.
    """
    if not names:
        return {}
    seats = [seat for seat in range(game.num_players()) if seat != agent_player]
    return {seat: _make_opponent(game, name, draws) for seat, name in zip(seats, names, strict=True)}


def _make_opponent(game: Any, name: str, draws: Draws) -> Opponent:
    if name == "first":
        return lambda state, seat: state.legal_actions(seat)[0]
    if name == "last":
        return lambda state, seat: state.legal_actions(seat)[-1]
    if name == "mcts":
        return _mcts(game, draws)
    return _random(draws)


def _random(draws: Draws) -> Opponent:
    def choose(state: Any, seat: int) -> int:
        legal = legal_actions(state, seat)
        action: int = legal[next(draws) % len(legal)]  # of 4,000 none is rarer by a millionth
        return action

    return choose


def refuse_mcts_where_it_would_cheat(game: Any) -> None:
    """Raises ValueError unless the game is turn-based, of perfect information, and tells the odds of its chances.

    Tree search plays from the whole state: in any other game it would look at what its seat may not see.
    """
    game_type, kinds = game.get_type(), pyspiel.GameType
    if (
        game_type.information != kinds.Information.PERFECT_INFORMATION
        or game_type.dynamics != kinds.Dynamics.SEQUENTIAL
        or game_type.chance_mode == kinds.ChanceMode.SAMPLED_STOCHASTIC
    ):
        raise ValueError(
            f"opponent_policy='mcts' cannot play {game_type.short_name!r}: tree search needs a turn-based game whose "
            "whole state every seat may see. Use random, first or last."
        )


def _mcts(game: Any, draws: Draws) -> Opponent:
    refuse_mcts_where_it_would_cheat(game)
    evaluator = pyspiel.RandomRolloutEvaluator(1, draw_bits(draws, 31))
    bot = pyspiel.MCTSBot(
        game, evaluator, MCTS_EXPLORATION, MCTS_SIMULATIONS, MCTS_MEMORY_MB, True, draw_bits(draws, 31), False
    )
    return lambda state, _seat: bot.step(state)
