"""Positions with a name: mates in one and two, and endgames to win or to hold."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from openenv.envs.chess_env.server.opponents import POLICIES, STOCKFISH
from openenv.envs.chess_env.server.stockfish import find_stockfish


@dataclass(frozen=True, kw_only=True)
class Position:
    """A position to play from. The colour to move is the agent's."""

    fen: str
    mate_in: int | None = None
    """Moves of the agent to checkmate, against any defence; None: an endgame."""
    opponent_policy: str = "greedy"

    def reset(self) -> Mapping[str, Any]:
        """The reset keywords. An endgame may take fifty moves, a mate just those that it needs."""
        color = "white" if self.fen.split()[1] == "w" else "black"
        limit = _ENDGAME_MOVES if self.mate_in is None else self.mate_in
        return {
            "fen": self.fen,
            "agent_color": color,
            "opponent_policy": self.opponent_policy,
            "max_moves": limit,
        }


_ENDGAME_MOVES = 50

_MATES_IN_ONE = {
    "anastasia": "5r2/4N1pk/8/8/8/4R3/8/6K1 w - - 0 1",
    "arabian": "7k/1R6/5N2/8/8/8/8/4K3 w - - 0 1",
    "arabian-black": "6k1/8/8/8/8/5n2/1r6/7K b - - 0 1",
    "back-rank": "6k1/5ppp/8/8/8/8/5PPP/3R2K1 w - - 0 1",
    "boden": "2kr4/3p4/8/8/5B2/8/8/4KB2 w - - 0 1",
    "castling": "5k2/8/8/8/8/8/4R1R1/4K2R w K - 0 1",
    "castling-long": "3k4/8/8/8/8/8/2R1R3/R3K3 w Q - 0 1",
    "en-passant": "8/7k/8/5PpP/2B5/8/1B6/4K2R w - g6 0 1",
    "epaulette": "3rkr2/8/Q7/8/8/8/8/4K3 w - - 0 1",
    "fools-mate": "rnbqkbnr/pppp1ppp/8/4p3/6P1/5P2/PPPPP2P/RNBQKBNR b KQkq - 0 2",
    "knight-promotion": "6br/5Ppk/8/6PP/8/8/8/4K3 w - - 0 1",
    "promotion": "6k1/3P1ppp/8/8/8/8/6PP/6K1 w - - 0 1",
    "queen": "4k3/8/4K3/8/8/8/8/Q7 w - - 0 1",
    "scholars-mate": "r1bqkbnr/pppp1ppp/2n5/4p2Q/2B1P3/8/PPPP1PPP/RNB1K1NR w KQkq - 0 1",
    "smothered": "6rk/6pp/8/6N1/8/8/6PP/6K1 w - - 0 1",
    "two-bishops": "7k/8/6K1/8/2B5/8/3B4/8 w - - 0 1",
    "two-rooks": "7k/R7/1R6/8/8/8/8/4K3 w - - 0 1",
}
_MATES_IN_TWO = {
    "queen": "7k/8/8/5K2/8/8/8/1Q6 w - - 0 1",
    "rook": "7k/8/5K2/8/8/8/8/R7 w - - 0 1",
    "rook-black": "r7/8/8/8/8/5k2/8/7K b - - 0 1",
    "smothered": "5r1k/6pp/7N/8/8/1Q6/6PP/6K1 w - - 0 1",
    "two-rooks": "8/k7/7R/8/8/8/8/4K1R1 w - - 0 1",
}
_ENDGAMES = {
    "bishop-and-knight": "4k3/8/8/8/8/8/8/1N2KB2 w - - 0 1",
    "lucena": "1K1k4/1P6/8/8/8/8/r7/2R5 w - - 0 1",
    "pawn": "4k3/8/4K3/4P3/8/8/8/8 w - - 0 1",
    "philidor": "4k3/7R/r7/3KP3/8/8/8/8 b - - 0 1",
    "queen": "4k3/8/8/8/8/8/8/3QK3 w - - 0 1",
    "queen-v-rook": "4k3/4r3/8/8/8/8/8/3QK3 w - - 0 1",
    "reti": "7K/8/k1P5/7p/8/8/8/8 w - - 0 1",
    "rook": "4k3/8/8/8/8/8/8/4K2R w - - 0 1",
    "two-bishops": "4k3/8/8/8/8/8/8/2B1KB2 w - - 0 1",
    "two-rooks": "4k3/8/8/8/8/8/8/R3K2R w - - 0 1",
}
"""Philidor's and Reti's are draws, which black and white have to hold; all others are won."""


def _positions() -> Iterator[tuple[str, Position]]:
    for moves, mates in ((1, _MATES_IN_ONE), (2, _MATES_IN_TWO)):
        for name, fen in mates.items():
            yield f"mate-in-{moves}/{name}", Position(fen=fen, mate_in=moves)
    for name, fen in _ENDGAMES.items():
        yield f"endgame/{name}", Position(fen=fen)


POSITIONS: Mapping[str, Position] = dict(_positions())


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
