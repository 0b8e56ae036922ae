"""A greedy player of chess, and random play of OpenSpiel alone."""

from collections.abc import Iterator
from random import Random
from typing import Any

from openenv.envs.chess_env.models import ChessAction, ChessObservation
from openenv.envs.chess_env.server.game import CHESS
from openenv.envs.chess_env.server.opponents import greedy_indices


def random_moves(fen: str | None = None, max_moves: int = 100, **_: Any) -> Iterator[int]:
    """Random play of OpenSpiel by itself, with white's moves counted. max_moves: of each colour."""
    rng = Random(0)
    while True:
        state = CHESS.new_initial_state() if fen is None else CHESS.new_initial_state(fen)
        for number in range(2 * max_moves):
            if state.is_terminal():
                break
            state.apply_action(rng.choice(state.legal_actions()))
            if number % 2 == 0:
                yield 1


def greedy_action(seen: ChessObservation, rng: Random) -> ChessAction:
    """Checkmate, else the move that gains the most material; among equal ones at random."""
    return ChessAction(
        move=seen.legal_actions[rng.choice(greedy_indices(seen.fen, seen.legal_actions, seen.legal_uci))]
    )
