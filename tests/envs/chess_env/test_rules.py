"""The rules: legal moves beside OpenSpiel's and beside known counts, the endings, and positions that are refused."""

import pytest

from tests.envs.extras import require_extra

require_extra("pyspiel", "chess")

import pyspiel

from openenv.envs.chess_env.server.fen import START_FEN, board_of, checked_fen, is_in_check, pieces_of
from openenv.envs.chess_env.server.game import Game

KIWIPETE = "r3k2r/p1ppqpb1/bn2pnp1/3PN3/1p2P3/2N2Q1p/PPPBBPPP/R3K2R w KQkq - 0 1"


def num_games(game, depth):
    """The number of games of some half-moves: what programmers of chess count to check their rules."""
    if depth == 0:
        return 1
    return sum(num_games(game.after(action), depth - 1) for action in game.legal.actions)


@pytest.mark.parametrize(
    ("fen", "counts"),
    [
        (START_FEN, [20, 400, 8902]),
        (KIWIPETE, [48, 2039]),
        ("8/2p5/3p4/KP5r/1R3p1k/8/4P1P1/8 w - - 0 1", [14, 191, 2812]),
        ("r3k2r/Pppp1ppp/1b3nbN/nP6/BBP1P3/q4N2/Pp1P2PP/R2Q1RK1 w kq - 0 1", [6, 264]),
        ("rnbq1k1r/pp1Pbppp/2p5/8/2B5/8/PPP1NnPP/RNBQK2R w KQ - 1 8", [44, 1486]),
    ],
)
def test_the_number_of_games_is_the_known_one(fen, counts):
    assert [num_games(Game.start(fen), depth) for depth in range(1, len(counts) + 1)] == counts


def test_legal_moves_are_those_of_openspiel_in_both_notations(positions):
    for game in positions:
        state = pyspiel.load_game("chess").new_initial_state(game.fen)
        assert game.legal.actions == state.legal_actions()
        assert game.legal.san == [state.action_to_string(action) for action in state.legal_actions()]
        assert [state.parse_move_to_action(move) for move in game.legal.uci] == state.legal_actions()
        assert len({*game.legal.san}) == len({*game.legal.uci}) == len(game.legal.actions)


def test_a_game_is_left_as_it_was_by_a_move():
    game = Game.start(START_FEN)
    after = game.after(game.legal.actions[0])

    assert (game.fen, game.san, game.uci) == (START_FEN, (), [])
    assert (after.san, after.uci, after.to_move) == (("a3",), ["a2a3"], "black")


def played(fen, *moves):
    game = Game.start(fen)
    for move in moves:
        game = game.after(game.legal.actions[game.legal.san.index(move)])
    return game


SHUFFLE = ("Nf3", "Nf6", "Ng1", "Ng8")


@pytest.mark.parametrize(
    ("fen", "moves", "ending", "winner"),
    [
        (START_FEN, ("f3", "e5", "g4", "Qh4#"), "checkmate", "black"),
        (START_FEN, ("e4", "e5", "Bc4", "Nc6", "Qh5", "Nf6", "Qxf7#"), "checkmate", "white"),
        ("7k/8/5KQ1/8/8/8/8/8 w - - 0 1", ("Kf7",), "stalemate", None),
        (START_FEN, SHUFFLE, "", None),
        (START_FEN, (*SHUFFLE, *SHUFFLE), "repetition", None),
        ("7k/8/8/8/8/8/8/K6R b - - 0 1", ("Kg7", "Rg1+"), "", None),
        ("7k/8/8/8/8/8/6R1/K7 w - - 98 90", ("Rg3",), "", None),
        ("7k/8/8/8/8/8/6R1/K7 w - - 99 90", ("Rg3",), "fifty moves", None),
        ("7k/6Q1/5K2/8/8/8/8/8 b - - 99 90", (), "checkmate", "white"),
        ("6k1/8/5KQ1/8/8/8/8/8 b - - 98 90", ("Kf8", "Qf7#"), "checkmate", "white"),
        ("7k/8/8/8/8/8/1r6/K7 w - - 0 1", ("Kxb2",), "insufficient material", None),
        ("7k/8/8/8/8/8/1r6/K2B4 w - - 0 1", ("Kxb2",), "insufficient material", None),
        ("7k/8/8/8/8/8/1r6/K2R4 w - - 0 1", ("Kxb2",), "", None),
    ],
)
def test_a_game_ends_by_the_rules_with_its_reason(fen, moves, ending, winner):
    game = played(fen, *moves)

    assert (game.ending, game.winner) == (ending, winner)
    assert bool(game.legal.actions) == (not ending)


def test_a_repetition_needs_the_same_rights():
    """After the kings have moved there is no castling, so the first position does not count."""
    shuffle = ("Ke2", "Ke7", "Ke1", "Ke8")
    game = played("4k3/7p/8/8/8/8/8/4K2R w K - 0 1", *shuffle, *shuffle)

    assert game.ending == ""
    assert played("4k3/7p/8/8/8/8/8/4K2R w K - 0 1", *shuffle, *shuffle, *shuffle[:1]).ending == "repetition"


def test_check_is_what_the_last_move_names(positions):
    num_checks = 0
    for game in positions:
        is_check = is_in_check(pieces_of(game.fen), game.to_move)
        if game.san:
            assert is_check == game.san[-1].endswith("+"), game.fen
            num_checks += is_check

    assert num_checks > 10


def test_the_board_is_the_position(positions):
    for game in positions[::10]:
        *ranks, files = board_of(game.fen).split("\n")
        assert files.split() == list("abcdefgh")
        assert [rank.split()[0] for rank in ranks] == list("87654321")
        shown = {
            (file, 7 - row): piece
            for row, rank in enumerate(ranks)
            for file, piece in enumerate(rank.split()[1:])
            if piece != "."
        }
        assert shown == pieces_of(game.fen)


def test_positions_of_games_are_valid(positions):
    for game in positions:
        if int(game.fen.split()[4]) < 100:
            assert checked_fen(game.fen) == game.fen


def test_the_counters_may_be_left_out():
    assert checked_fen("7k/8/8/8/8/8/6R1/K7 w - -") == "7k/8/8/8/8/8/6R1/K7 w - - 0 1"


@pytest.mark.parametrize(
    ("fen", "problem"),
    [
        ("", "it has 0 fields"),
        ("start", "it has 1 fields"),
        (7, "expected a position"),
        ("8/" * 60, "expected a position in at most 100 characters"),
        ("8/8/8/8/8/8/8 w - - 0 1", "it has 7 ranks"),
        ("7k/8/8/8/8/8/8/K7/8 w - - 0 1", "it has 9 ranks"),
        ("7k/8/8/8/8/8/7/K7 w - - 0 1", "rank 2 has 7 squares"),
        ("7k/8/8/8/8/8/8P/K7 w - - 0 1", "rank 2 has 9 squares"),
        ("7k/8/8/8/8/8/6X1/K7 w - - 0 1", "rank 2 has 'X'"),
        ("7k/8/8/8/8/8/8/8 w - - 0 1", "white has 0 kings"),
        ("7k/8/8/8/8/8/8/KK6 w - - 0 1", "white has 2 kings"),
        ("8/8/8/8/8/8/8/K7 w - - 0 1", "black has 0 kings"),
        ("7k/8/8/8/8/8/8/K6P w - - 0 1", "a pawn is on rank 1 or 8"),
        ("p6k/8/8/8/8/8/8/K7 w - - 0 1", "a pawn is on rank 1 or 8"),
        ("7k/8/8/8/8/8/6R1/K7 x - - 0 1", "the side to move is 'x'"),
        ("R6k/8/8/8/8/8/8/K7 w - - 0 1", "the side that is not to move is in check"),
        ("kK6/8/8/8/8/8/8/7R w - - 0 1", "the side that is not to move is in check"),
        ("7k/6P1/8/8/8/8/8/K7 w - - 0 1", "the side that is not to move is in check"),
        ("7k/8/6N1/8/8/8/8/K7 w - - 0 1", "the side that is not to move is in check"),
        ("7k/8/8/8/8/8/8/b5K1 b - - 0 1", None),
        ("7k/8/8/8/8/8/6R1/K7 w KQ - 0 1", "castling right K needs the king on e1 and a rook on h1"),
        ("7k/8/8/8/8/8/8/R3K3 w QK - 0 1", "the castling rights are 'QK'"),
        ("7k/8/8/8/8/8/8/R3K3 w x - 0 1", "the castling rights are 'x'"),
        ("4k3/8/8/3pP3/8/8/8/4K3 w - e6 0 1", "no pawn has just passed the en passant square e6"),
        ("4k3/8/8/3pP3/8/8/8/4K3 w - d3 0 1", "the en passant square is 'd3'. Expected - or a square on rank 6"),
        ("4k3/3r4/8/3pP3/8/8/8/4K3 w - d6 0 1", "no pawn has just passed"),
        ("7k/8/8/8/8/8/6R1/K7 w - - 100 90", "the clock of half-moves is '100'"),
        ("7k/8/8/8/8/8/6R1/K7 w - - a 90", "the clock of half-moves is 'a'"),
        ("7k/8/8/8/8/8/6R1/K7 w - - 0 0", "the move number is '0'"),
    ],
)
def test_a_wrong_position_is_refused_with_what_is_wrong(fen, problem):
    if problem is None:
        assert checked_fen(fen) == fen
        return
    with pytest.raises(ValueError, match=f"fen=.*{problem}"):
        checked_fen(fen)
