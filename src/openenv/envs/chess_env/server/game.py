"""A game of chess by OpenSpiel's rules: the position after some moves, its legal moves, and its ending."""

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple, Self

import pyspiel

from openenv.envs.chess_env.models import Color, Ending

CHESS = pyspiel.load_game("chess")
_WHITE = 1
"""OpenSpiel's number of white; black is 0."""
_FIFTY_MOVES = 100
"""Half-moves without a capture or a pawn's move after which the game is a draw."""


class LegalMoves(NamedTuple):
    """The legal moves of a position, in one order."""

    actions: list[int]
    """OpenSpiel's numbers."""
    san: list[str]
    uci: list[str]


class Game:
    """The position after some moves. A move makes another game and leaves this one as it is."""

    def __init__(self, start_fen: str, state: Any, san: tuple[str, ...]) -> None:
        self.start_fen = start_fen
        self.state = state
        """The `pyspiel.ChessState`."""
        self.san = san
        """All moves."""

    @classmethod
    def start(cls, fen: str, actions: Sequence[int] = ()) -> Self:
        """A game from a valid position, after some moves by OpenSpiel's numbers."""
        game = cls(fen, CHESS.new_initial_state(fen), ())
        for action in actions:
            game = game.after(action)
        return game

    def after(self, action: int) -> Self:
        """The game after a legal move by OpenSpiel's number."""
        state = self.state.clone()
        state.apply_action(action)
        return type(self)(self.start_fen, state, (*self.san, self.state.action_to_string(action)))

    @cached_property
    def fen(self) -> str:
        """The position in Forsyth-Edwards notation."""
        return str(self.state.board().to_fen())

    @property
    def to_move(self) -> Color:
        """The colour whose turn it is, or would be."""
        return "white" if self.fen.split()[1] == "w" else "black"

    @property
    def uci(self) -> list[str]:
        """All moves in UCI."""
        return [move.to_lan() for move in self.state.moves_history()]

    @cached_property
    def legal(self) -> LegalMoves:
        """The legal moves; none when the game is over."""
        actions, board = self.state.legal_actions(), self.state.board()
        moves = [pyspiel.chess.action_to_move(action, board) for action in actions]
        return LegalMoves(actions, [move.to_san(board) for move in moves], [move.to_lan() for move in moves])

    @property
    def winner(self) -> Color | None:
        """The colour that has given checkmate."""
        value = self.state.player_return(_WHITE)
        return None if value == 0 else "white" if value > 0 else "black"

    @property
    def ending(self) -> Ending:
        """Why the game is over by the rules; empty while it goes on."""
        if not self.state.is_terminal():
            return ""
        if self.winner is not None:
            return "checkmate"
        if self.state.is_repetition_draw():
            return "repetition"
        if not self.state.board().has_legal_moves():
            return "stalemate"
        return "fifty moves" if int(self.fen.split()[4]) >= _FIFTY_MOVES else "insufficient material"
