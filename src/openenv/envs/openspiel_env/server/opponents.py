"""Policies of the seats that the agent does not play: random, first, last or mcts."""

from collections.abc import Callable, Sequence
from typing import Any

import pyspiel

from openenv.envs.openspiel_env.server.games import legal_actions, unknown_name
from openenv.envs.openspiel_env.server.rng import Rng, random_bits

Opponent = Callable[[Any, int], int]
"""Maps a state and a seat to that seat's action."""

RANDOM, MCTS = "random", "mcts"
POLICY_NAMES = (RANDOM, "first", "last", MCTS)
MCTS_SIMULATIONS = 100
MCTS_EXPLORATION = 2.0
MCTS_MEMORY_MB = 64


def opponent_policies(game: Any, opponent_policy: object) -> list[str]:
    """Return one policy name for each seat that is not the agent's, in the order of the seats.

    Raises ValueError for an unknown name, for a list of the wrong length, and for mcts in a game that it cannot play.
    """
    num_opponents = game.num_players() - 1
    names = [opponent_policy] * num_opponents if isinstance(opponent_policy, str) else opponent_policy
    if not isinstance(names, list | tuple):
        raise ValueError(
            f"opponent_policy={opponent_policy!r}: expected one of {', '.join(POLICY_NAMES)}, or a list of them."
        )
    for name in [opponent_policy] if isinstance(opponent_policy, str) else names:
        if name not in POLICY_NAMES:
            raise unknown_name("opponent_policy", name, POLICY_NAMES)
    if len(names) != num_opponents:
        raise ValueError(
            f"opponent_policy={list(names)!r} names {len(names)} seats, but this game has {num_opponents} beside the "
            "agent's. Give one name for all, or one for each."
        )
    if MCTS in names:
        _refuse_mcts_with_hidden_state(game)
    return list(names)


def make_opponents(game: Any, agent_player: int, policies: Sequence[str], rng: Rng) -> dict[int, Opponent]:
    """Return the opponent of every seat but the agent's. All of them take random numbers from `rng`."""
    if not policies:
        return {}
    seats = [seat for seat in range(game.num_players()) if seat != agent_player]
    return {seat: _make_opponent(game, policy, rng) for seat, policy in zip(seats, policies, strict=True)}


def _make_opponent(game: Any, policy: str, rng: Rng) -> Opponent:
    if policy == "first":
        return lambda state, seat: state.legal_actions(seat)[0]
    if policy == "last":
        return lambda state, seat: state.legal_actions(seat)[-1]
    if policy == MCTS:
        return _make_mcts(game, rng)
    return _make_random(rng)


def _make_random(rng: Rng) -> Opponent:
    def choose(state: Any, seat: int) -> int:
        legal = legal_actions(state, seat)
        action: int = legal[next(rng) % len(legal)]  # with 4,000 actions the modulo bias is under one in a million
        return action

    return choose


def _make_mcts(game: Any, rng: Rng) -> Opponent:
    evaluator = pyspiel.RandomRolloutEvaluator(1, random_bits(rng, 31))
    bot = pyspiel.MCTSBot(
        game, evaluator, MCTS_EXPLORATION, MCTS_SIMULATIONS, MCTS_MEMORY_MB, True, random_bits(rng, 31), False
    )
    return lambda state, _seat: bot.step(state)


def _refuse_mcts_with_hidden_state(game: Any) -> None:
    """Raise ValueError unless the game is turn-based, has perfect information, and declares its chance outcomes.

    Tree search plays from the whole state. In any other game it would use what its seat may not see.
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
