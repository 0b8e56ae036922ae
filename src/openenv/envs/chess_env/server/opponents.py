"""The colour that the agent does not play: at random, by material, by OpenSpiel's tree search, or by Stockfish."""

from collections.abc import Callable, Sequence
from random import Random

import pyspiel

from openenv.envs.chess_env.models import ChessState
from openenv.envs.chess_env.server.fen import pieces_of, square_of
from openenv.envs.chess_env.server.game import CHESS, Game
from openenv.envs.chess_env.server.stockfish import Stockfish

RANDOM, GREEDY, MCTS, STOCKFISH = "random", "greedy", "mcts", "stockfish"
POLICIES = (RANDOM, GREEDY, MCTS, STOCKFISH)
SLOW = (MCTS, STOCKFISH)
"""Policies that take milliseconds or more for a move."""

Opponent = Callable[[Game], int]
"""Maps a game that is not over to OpenSpiel's number of a legal move."""

_VALUES = {"P": 1, "N": 3, "B": 3, "R": 5, "Q": 9}
_CHECKMATE = 100
_EXPLORATION = 2.0
_MEMORY_MB = 64


def make_opponent(state: ChessState, rng: Random, engine: Stockfish | None) -> Opponent:
    """The opponent of an episode. rng: of all policies but Stockfish. engine: given where the policy is Stockfish."""
    if state.opponent_policy == GREEDY:
        return lambda game: game.legal.actions[rng.choice(greedy_indices(game.fen, game.legal.san, game.legal.uci))]
    if state.opponent_policy == MCTS:
        return lambda game: _mcts_move(game, rng, state.mcts_simulations)
    if state.opponent_policy == STOCKFISH:
        assert engine is not None
        return lambda game: _stockfish_move(game, engine, state.stockfish_nodes)
    return lambda game: int(rng.choice(game.state.legal_actions()))


def _mcts_move(game: Game, rng: Random, simulations: int) -> int:
    """OpenSpiel's Monte Carlo tree search with random playouts. It keeps nothing from one move to the next."""
    evaluator = pyspiel.RandomRolloutEvaluator(1, rng.getrandbits(31))
    seed = rng.getrandbits(31)
    bot = pyspiel.MCTSBot(CHESS, evaluator, _EXPLORATION, simulations, _MEMORY_MB, True, seed, False)
    return int(bot.step(game.state))


def _stockfish_move(game: Game, engine: Stockfish, nodes: int) -> int:
    return int(game.state.parse_move_to_action(engine.best_move(game.start_fen, game.uci, nodes)))


def greedy_indices(fen: str, san: Sequence[str], uci: Sequence[str]) -> list[int]:
    """The indices of the legal moves that gain the most; checkmate gains more than anything."""
    pieces = pieces_of(fen)

    def gain(name: str, move: str) -> int:
        if name.endswith("#"):
            return _CHECKMATE
        taken = pieces.get(square_of(move[2:4]), "P").upper() if "x" in name else None
        promoted = _VALUES[move[4].upper()] - _VALUES["P"] if len(move) > 4 else 0
        return promoted + (0 if taken is None else _VALUES[taken])

    gains = [gain(*names) for names in zip(san, uci, strict=True)]
    return [index for index, value in enumerate(gains) if value == max(gains)]
