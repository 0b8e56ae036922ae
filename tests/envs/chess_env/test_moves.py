"""Moves as people write them: SAN and UCI, marks, case, and what is ambiguous."""

import pytest

from openenv.envs.chess_env.moves import find_moves, read_move
from tests.envs.extras import require_extra

require_extra("pyspiel", "chess")

from openenv.envs.chess_env.server.fen import START_FEN
from openenv.envs.chess_env.server.game import Game

KNIGHTS = "4k3/8/8/8/8/5N2/8/1N2K3 w - - 0 1"  # both reach d2
ROOKS = "4k3/8/8/R7/8/8/8/R6K w - - 0 1"  # both reach a3
THREE_QUEENS = "7k/8/8/1Q3Q2/8/8/8/KQ6 w - - 0 1"
KNIGHT_AND_BISHOP = "1nb1k3/8/8/8/8/8/8/4K3 b - - 0 1"  # b8d7 is the knight's
PROMOTION = "3r3k/4P3/8/8/8/8/8/K7 w - - 0 1"
EN_PASSANT = "4k3/8/8/3pP3/8/8/8/4K3 w - d6 0 1"
CASTLING = "r3k2r/8/8/8/8/8/8/R3K2R w KQkq - 0 1"
BISHOP_AND_PAWN = "4k3/8/8/8/3B4/2p5/1P6/4K3 w - - 0 1"  # Bxc3 and bxc3
BISHOP_ALONE = "4k3/8/8/8/3B4/2p5/8/4K3 w - - 0 1"
PINNED = "4k3/8/8/8/1b6/8/3N4/4K1N1 w - - 0 1"  # the knight on d2 may not move


def moves_of(fen):
    return Game.start(fen).legal


@pytest.mark.parametrize(
    ("fen", "written", "uci"),
    [
        (START_FEN, "Nf3", "g1f3"),
        (START_FEN, "nf3", "g1f3"),
        (START_FEN, "NF3", "g1f3"),
        (START_FEN, "g1f3", "g1f3"),
        (START_FEN, "G1F3", "g1f3"),
        (START_FEN, "Ng1-f3", "g1f3"),
        (START_FEN, "Ngf3", "g1f3"),
        (START_FEN, "N1f3", "g1f3"),
        (START_FEN, "Nf3+", "g1f3"),
        (START_FEN, "Nf3!?", "g1f3"),
        (START_FEN, " e4 ", "e2e4"),
        (START_FEN, "E4", "e2e4"),
        (START_FEN, "e2-e4", "e2e4"),
        (KNIGHTS, "Nbd2", "b1d2"),
        (KNIGHTS, "Nfd2", "f3d2"),
        (KNIGHTS, "nbd2", "b1d2"),
        (KNIGHTS, "Na3", "b1a3"),
        (ROOKS, "R1a3", "a1a3"),
        (ROOKS, "R5a3", "a5a3"),
        (ROOKS, "r5a3", "a5a3"),
        (THREE_QUEENS, "Qb5d3", "b5d3"),
        (THREE_QUEENS, "Qb1d3", "b1d3"),
        (KNIGHT_AND_BISHOP, "B8D7", "b8d7"),
        (PINNED, "Nf3", "g1f3"),
        (PROMOTION, "e8=Q+", "e7e8q"),
        (PROMOTION, "e8Q", "e7e8q"),
        (PROMOTION, "e8=n", "e7e8n"),
        (PROMOTION, "e7e8r", "e7e8r"),
        (PROMOTION, "E7E8B", "e7e8b"),
        (PROMOTION, "exd8=Q", "e7d8q"),
        (PROMOTION, "ed8Q", "e7d8q"),
        (EN_PASSANT, "exd6", "e5d6"),
        (EN_PASSANT, "ed6", "e5d6"),
        (EN_PASSANT, "e5d6", "e5d6"),
        (CASTLING, "O-O", "e1g1"),
        (CASTLING, "o-o", "e1g1"),
        (CASTLING, "0-0", "e1g1"),
        (CASTLING, "O-O-O", "e1c1"),
        (CASTLING, "0-0-0", "e1c1"),
        (CASTLING, "e1c1", "e1c1"),
        (CASTLING, "Rxa8", "a1a8"),
        (BISHOP_AND_PAWN, "Bxc3", "d4c3"),
        (BISHOP_AND_PAWN, "bxc3", "b2c3"),
        (BISHOP_AND_PAWN, "b2c3", "b2c3"),
        (BISHOP_ALONE, "bxc3", "d4c3"),
    ],
)
def test_a_move_is_read_in_each_notation(fen, written, uci):
    legal = moves_of(fen)

    assert legal.uci[read_move(written, legal.san, legal.uci)] == uci


@pytest.mark.parametrize(
    ("fen", "written"),
    [
        (START_FEN, "Nf6"),
        (START_FEN, "e5"),
        (START_FEN, "O-O"),
        (START_FEN, "f3g1"),
        (START_FEN, "Ke2"),
        (START_FEN, "N"),
        (START_FEN, "!"),
        (PROMOTION, "e8"),
        (PROMOTION, "e8=K"),
        (PROMOTION, "d8=Q"),
        (EN_PASSANT, "d6"),
        (PINNED, "Ndf3"),
        (CASTLING, "Kg1"),
    ],
)
def test_what_is_no_legal_move_is_refused_with_the_legal_ones(fen, written):
    legal = moves_of(fen)

    with pytest.raises(ValueError, match=f"move='{written}' is not legal. Legal are: {legal.san[0]}, "):
        read_move(written, legal.san, legal.uci)


@pytest.mark.parametrize(
    ("fen", "written", "named"),
    [
        (KNIGHTS, "Nd2", "Nbd2 or Nfd2"),
        (KNIGHTS, "nd2", "Nbd2 or Nfd2"),
        (ROOKS, "Ra3", "R1a3 or R5a3"),
        (THREE_QUEENS, "Qbd3", "Q1d3 or Qb5d3"),
        (BISHOP_AND_PAWN, "BXC3", "bxc3 or Bxc3"),
    ],
)
def test_a_move_that_could_be_two_is_refused_with_both(fen, written, named):
    legal = moves_of(fen)

    with pytest.raises(ValueError, match=f"move='{written}' is ambiguous. Write {named}"):
        read_move(written, legal.san, legal.uci)


def test_every_legal_move_of_many_positions_is_read_as_itself(positions):
    for game in positions[::8]:
        legal = game.legal
        for index, (san, uci) in enumerate(zip(legal.san, legal.uci, strict=True)):
            for written in (san, san.rstrip("+#"), san.replace("=", "").replace("x", ""), uci, uci.upper()):
                assert find_moves(written, legal.san, legal.uci) == [index], (game.fen, written)
