"""How chess reads as a prompt, and how replies become moves."""

import time
from random import Random

import pytest

from tests.envs.extras import require_extra

require_extra("pyspiel", "chess")

from openenv.envs.chess_env import ChessAction, ChessText
from openenv.envs.chess_env.server.environment import ChessEnvironment

TEXT = ChessText()
KNIGHTS = "4k3/8/8/8/8/5N2/8/1N2K3 w - - 0 1"
CHECKED = "4k3/8/8/8/8/8/4r3/4K3 w - - 0 1"


def shown(*moves, **reset):
    environment = ChessEnvironment()
    seen = environment.reset(seed=1, **reset)
    for move in moves:
        seen = environment.step(ChessAction(move=move))
    return seen


def test_the_prompt_shows_the_board_the_turn_and_the_legal_moves():
    seen = shown("e4", "e5", agent_player="all")

    assert TEXT.instructions(seen) == (
        "Chess: you play white. Upper case letters are white pieces, lower case letters are black pieces. "
        "Reply with one of the legal moves that each message lists, such as Nf3, exd5, O-O or e8=Q."
    )
    assert TEXT.describe(seen) == (
        "8 r n b q k b n r\n"
        "7 p p p p . p p p\n"
        "6 . . . . . . . .\n"
        "5 . . . . p . . .\n"
        "4 . . . . P . . .\n"
        "3 . . . . . . . .\n"
        "2 P P P P . P P P\n"
        "1 R N B Q K B N R\n"
        "  a b c d e f g h\n"
        "Last moves: e4 e5\n"
        "Move 2, white to move.\n"
        f"Legal moves: {' '.join(seen.legal_actions)}"
    )


def test_check_and_the_end_are_shown():
    assert "Move 1, white to move, in check.\nLegal moves: K" in TEXT.describe(shown(fen=CHECKED))
    mate = TEXT.describe(shown("f3", "e5", "g4", "Qh4", agent_player="all"))
    assert mate.endswith("Last moves: f3 e5 g4 Qh4#\nThe game is over: checkmate, 0-1.")


@pytest.mark.parametrize(
    ("reply", "move"),
    [
        ("e4", "e4"),
        ("E2E4", "e4"),
        ("I play e4.", "e4"),
        ("1. e4", "e4"),
        ("1.e4", "e4"),
        ("**Nf3**!", "Nf3"),
        ("<answer>Nf3</answer>", "Nf3"),
        ("Nf3 (g1f3) attacks e5", "Nf3"),
        ("e2 - e4", "e4"),
        ("My move: nf3", "Nf3"),
        ("e4 or d4.\nAnswer: d4", "d4"),
    ],
)
def test_a_reply_with_one_legal_move_is_that_move(reply, move):
    assert TEXT.parse(reply, shown()) == ChessAction(move=move)


def test_castling_is_read_in_a_sentence():
    seen = shown(fen="4k3/8/8/8/8/8/8/4K2R w K - 0 1")

    assert TEXT.parse("I castle: O-O.", seen) == ChessAction(move="O-O")


@pytest.mark.parametrize(
    ("fen", "reply", "problem"),
    [
        (None, "e4 or d4", "'e4 or d4' can mean d4 or e4: name one move."),
        (None, "I do not know", "'I do not know' names no legal move: a3 a4 Na3"),
        (None, "", "'' names no legal move"),
        (None, "I would not play e4", "'I would not play e4' names no legal move"),
        (KNIGHTS, "Nd2", "'Nd2' can mean Nbd2 or Nfd2: name one move."),
    ],
)
def test_a_reply_without_one_legal_move_is_none_and_the_problem_is_why(fen, reply, problem):
    seen = shown(fen=fen)

    assert TEXT.parse(reply, seen) is None
    assert TEXT.problem(reply, seen).startswith(problem)


def test_a_move_has_the_same_wording_however_it_is_written():
    seen = shown()

    assert {TEXT.wording(ChessAction(move=move), seen) for move in ("Nf3", "g1f3", "nf3")} == {"Nf3"}
    assert TEXT.wording(ChessAction(move="Nf6"), seen) is None


def test_random_replies_are_legal_moves():
    seen, rng = shown(), Random(0)
    replies = [TEXT.random_reply(seen, rng) for _ in range(200)]

    assert {reply for reply, _ in replies} == set(seen.legal_actions)
    assert all(TEXT.parse(reply, seen) == action for reply, action in replies)


@pytest.mark.parametrize("piece", ["a", "x-", "a1b2 ", "e4 ", "O-O "])
def test_a_long_reply_of_one_piece_names_no_move_and_is_read_at_once(piece):
    seen, begun = shown(), time.process_time()

    assert TEXT.parse(piece * (100_000 // len(piece)), seen) is None
    assert time.process_time() - begun < 10.0
