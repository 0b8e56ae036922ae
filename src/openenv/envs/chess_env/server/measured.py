"""The tasks of chess, and what `openenv envs --measure` plays: a whole game and two positions."""

import time
from collections.abc import Callable, Mapping
from random import Random
from typing import Any

from openenv.envs.chess_env.models import ChessAction, ChessObservation
from openenv.envs.chess_env.server.game import CHESS
from openenv.envs.chess_env.server.opponents import POLICIES, STOCKFISH, greedy_indices
from openenv.envs.chess_env.server.positions import POSITIONS
from openenv.envs.chess_env.server.stockfish import find_stockfish
from openenv.envs.measured import MeasuredTask


def tasks() -> Mapping[str, Mapping[str, Any]]:
    """The reset keywords of whole games by colour and opponent, and of each named position.

    Games against Stockfish are among them where it is installed.
    """
    policies = [policy for policy in POLICIES if policy != STOCKFISH or find_stockfish() is not None]
    games = {
        f"{color}/{policy}": {"agent_color": color, "opponent_policy": policy}
        for color in ("white", "black", "random")
        for policy in policies
    }
    return {**games, **{name: position.reset() for name, position in POSITIONS.items()}}


def _bare(fen: str | None, max_moves: int) -> Callable[[float], float]:
    """Random play of OpenSpiel by itself, with white's moves counted. max_moves: of each colour."""

    def play(seconds: float) -> float:
        rng, moves = Random(0), 0
        started = time.perf_counter()
        while time.perf_counter() - started < seconds:
            state = CHESS.new_initial_state() if fen is None else CHESS.new_initial_state(fen)
            for number in range(2 * max_moves):
                if state.is_terminal():
                    break
                moves += number % 2 == 0
                state.apply_action(rng.choice(state.legal_actions()))
        return moves / (time.perf_counter() - started)

    return play


def greedy_action(seen: ChessObservation, rng: Random) -> ChessAction:
    """Checkmate, else the move that gains the most material; among equal ones at random."""
    return ChessAction(
        move=seen.legal_actions[rng.choice(greedy_indices(seen.fen, seen.legal_actions, seen.legal_uci))]
    )


def _position(name: str) -> MeasuredTask:
    """A position that the agent wins by force."""
    reset = POSITIONS[name].reset()
    play_bare = _bare(reset["fen"], reset["max_moves"])
    return MeasuredTask(reset=reset, play_bare=play_bare, heuristic=greedy_action, best_return=1.0)


_GAME = {"opponent_policy": "random", "max_moves": 100}

MEASURED = {
    "game": MeasuredTask(reset=_GAME, play_bare=_bare(None, 100), heuristic=greedy_action, num_episodes=200),
    "mate-in-1/back-rank": _position("mate-in-1/back-rank"),
    "endgame/two-rooks": _position("endgame/two-rooks"),
}
