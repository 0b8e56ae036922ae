"""Reads positions in Forsyth-Edwards notation, and refuses what OpenSpiel would accept or fail on."""

from collections.abc import Mapping
from typing import Any

Square = tuple[int, int]
"""File and rank, both from 0: (4, 0) is e1."""

START_FEN = "rnbqkbnr/pppppppp/8/8/8/8/PPPPPPPP/RNBQKBNR w KQkq - 0 1"
FILES, RANKS = "abcdefgh", "12345678"
_LONGEST = 100
_MOST_CLOCK, _MOST_MOVES = 99, 9999
_CASTLING = {"K": ("e1", "h1"), "Q": ("e1", "a1"), "k": ("e8", "h8"), "q": ("e8", "a8")}
_STRAIGHT = ((1, 0), (-1, 0), (0, 1), (0, -1))
_DIAGONAL = ((1, 1), (1, -1), (-1, 1), (-1, -1))
_JUMPS = ((1, 2), (2, 1), (2, -1), (1, -2), (-1, -2), (-2, -1), (-2, 1), (-1, 2))


def square_of(name: str) -> Square:
    """The square of a name such as e4. Raises ValueError for another text."""
    if len(name) != 2 or name[0] not in FILES or name[1] not in RANKS:
        raise ValueError(f"{name!r} is not a square")
    return FILES.index(name[0]), RANKS.index(name[1])


def pieces_of(fen: str) -> dict[Square, str]:
    """The letter of the piece on each square that is not empty."""
    pieces = {}
    for row, cells in enumerate(_rows(fen.split()[0])):
        pieces.update({(file, 7 - row): piece for file, piece in enumerate(cells) if piece != "."})
    return pieces


def board_of(fen: str) -> str:
    """Ranks from 8 to 1, a line each, and the files below."""
    rows = (" ".join(cells) for cells in _rows(fen.split()[0]))
    return "\n".join([*(f"{8 - row} {cells}" for row, cells in enumerate(rows)), f"  {' '.join(FILES)}"])


def _rows(placement: str) -> list[str]:
    """The ranks from 8 to 1, with a dot for each empty square."""
    return ["".join("." * int(char) if char.isdigit() else char for char in rank) for rank in placement.split("/")]


def is_in_check(pieces: Mapping[Square, str], color: str) -> bool:
    """Whether the king of a colour, white or black, is attacked."""
    king, is_white = ("K", True) if color == "white" else ("k", False)
    at = next(square for square, piece in pieces.items() if piece == king)

    def is_enemy(piece: str | None, kinds: str) -> bool:
        return piece is not None and piece.isupper() != is_white and piece.upper() in kinds

    forward = 1 if is_white else -1
    near = [(step, "N") for step in _JUMPS] + [(step, "K") for step in _STRAIGHT + _DIAGONAL]
    near += [((side, forward), "P") for side in (1, -1)]
    far = [(step, "RQ") for step in _STRAIGHT] + [(step, "BQ") for step in _DIAGONAL]
    return any(is_enemy(pieces.get((at[0] + step[0], at[1] + step[1])), kind) for step, kind in near) or any(
        is_enemy(_first_on_line(pieces, at, step), kinds) for step, kinds in far
    )


def _first_on_line(pieces: Mapping[Square, str], start: Square, step: Square) -> str | None:
    """The first piece on a line from a square; None if there is none."""
    for distance in range(1, 8):
        piece = pieces.get((start[0] + distance * step[0], start[1] + distance * step[1]))
        if piece is not None:
            return piece
    return None


def checked_fen(fen: Any) -> str:
    """The position with all six fields; the two counters may be left out. Raises ValueError that says what is wrong."""
    if not isinstance(fen, str) or len(fen) > _LONGEST:
        raise ValueError(f"fen={fen!r:.120}: expected a position in at most {_LONGEST} characters.")
    fields = fen.split()
    if len(fields) == 4:
        fields += ["0", "1"]
    problem = _problem(fields)
    if problem:
        raise ValueError(f"fen={fen!r}: {problem} The start position is {START_FEN!r}.")
    return " ".join(fields)


def _problem(fields: list[str]) -> str:
    """What is wrong with a position, in a sentence; empty if nothing is."""
    if len(fields) != 6:
        return f"it has {len(fields)} fields. Expected six: pieces, side, castling, en passant, clock, move number."
    placement, side, castling, en_passant, clock, number = fields
    problem = _placement_problem(placement)
    if problem:
        return problem
    if side not in ("w", "b"):
        return f"the side to move is {side!r}. Expected w or b."
    pieces = pieces_of(placement)
    if is_in_check(pieces, "black" if side == "w" else "white"):
        return "the side that is not to move is in check."
    return (
        _castling_problem(castling, pieces)
        or _en_passant_problem(en_passant, side, pieces)
        or _counter_problem("the clock of half-moves", clock, 0, _MOST_CLOCK)
        or _counter_problem("the move number", number, 1, _MOST_MOVES)
    )


def _placement_problem(placement: str) -> str:
    ranks = placement.split("/")
    if len(ranks) != 8:
        return f"it has {len(ranks)} ranks. Expected eight, from rank 8 to rank 1, with / between them."
    for number, rank in zip(reversed(RANKS), ranks, strict=True):
        wrong = [char for char in rank if char not in "KQRBNPkqrbnp12345678"]
        if wrong:
            return f"rank {number} has {wrong[0]!r}. Pieces are KQRBNP and kqrbnp, and digits count empty squares."
        size = sum(int(char) if char.isdigit() else 1 for char in rank)
        if size != 8:
            return f"rank {number} has {size} squares. Expected eight."
    for king, color in (("K", "white"), ("k", "black")):
        if placement.count(king) != 1:
            return f"{color} has {placement.count(king)} kings. Expected one."
    return "a pawn is on rank 1 or 8." if {"P", "p"} & {*ranks[0], *ranks[-1]} else ""


def _castling_problem(castling: str, pieces: Mapping[Square, str]) -> str:
    if castling == "-":
        return ""
    if not castling or castling != "".join(right for right in _CASTLING if right in castling):
        return f"the castling rights are {castling!r}. Expected - or some of KQkq in this order."
    for right in castling:
        king, rook = _CASTLING[right]
        wanted = ("K", "R") if right.isupper() else ("k", "r")
        if (pieces.get(square_of(king)), pieces.get(square_of(rook))) != wanted:
            return f"castling right {right} needs the king on {king} and a rook on {rook}."
    return ""


def _en_passant_problem(name: str, side: str, pieces: Mapping[Square, str]) -> str:
    if name == "-":
        return ""
    rank, pawn, behind, ahead = ("6", "p", 6, 4) if side == "w" else ("3", "P", 1, 3)
    if len(name) != 2 or name[0] not in FILES or name[1] != rank:
        return f"the en passant square is {name!r}. Expected - or a square on rank {rank}."
    file, on = square_of(name)
    is_right = pieces.get((file, ahead)) == pawn and not {(file, on), (file, behind)} & pieces.keys()
    return "" if is_right else f"no pawn has just passed the en passant square {name}."


def _counter_problem(name: str, value: str, low: int, high: int) -> str:
    if value.isascii() and value.isdigit() and low <= int(value) <= high:
        return ""
    return f"{name} is {value!r}. Expected a whole number from {low} to {high}."
