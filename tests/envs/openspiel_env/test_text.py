"""Prompts of games and parsing of replies."""

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation
from openenv.envs.openspiel_env.server.environment import OpenSpielEnvironment
from openenv.envs.openspiel_env.text import OpenSpielText, blackjack_total
from tests.envs.openspiel_env.playing import play, random_episode

TEXT = OpenSpielText()
ROOT = Path(__file__).parents[3]


def _seen(game: str, text: str, names: list[str]) -> OpenSpielObservation:
    metadata: dict[str, Any] = {"game_name": game, "agent_player": 0, "text": text, "legal_action_names": names}
    return OpenSpielObservation(metadata=metadata, legal_actions=list(range(len(names))))


def _hand(own: str, dealer: str) -> OpenSpielObservation:
    text = f"Current Phase: Player Turn\nCurrent Player: 0\nPlayer 0: Cards: {own}\nDealer: Cards: {dealer}\n"
    return _seen("blackjack", text, ["Hit", "Stand"])


@pytest.mark.parametrize(
    ("own", "dealer", "description", "situation"),
    [
        ("CK H3", "?? H7", "You have K and 3, hard 13. The dealer shows 7.", "hard 13"),
        ("CT HA", "?? SA", "You have 10 and A, soft 21. The dealer shows A.", "soft 21"),
        ("C5 HA D6", "?? S2", "You have 5, A and 6, hard 12. The dealer shows 2.", "hard 12"),
        ("CA HA", "?? SQ", "You have A and A, soft 12. The dealer shows Q.", "soft 12"),
        ("CA HA DA S8", "?? S9", "You have A, A, A and 8, soft 21. The dealer shows 9.", "soft 21"),
    ],
)
def test_blackjack_describes_ranks_and_the_total(own: str, dealer: str, description: str, situation: str) -> None:
    observation = _hand(own, dealer)

    assert TEXT.describe(observation) == description
    assert TEXT.situation(observation) == situation
    assert list(TEXT.replies(observation)) == ["hit", "stand"]


@pytest.mark.parametrize(
    ("ranks", "total"), [(["A", "K"], (21, True)), (["A", "K", "5"], (16, False)), (["J", "Q", "2"], (22, False))]
)
def test_an_ace_counts_eleven_while_that_fits(ranks: list[str], total: tuple[int, bool]) -> None:
    assert blackjack_total(ranks) == total


def test_blackjack_never_names_the_hidden_card_or_a_finished_deal_wrongly() -> None:
    for seed in range(50):
        for observation in random_episode(OpenSpielEnvironment("blackjack"), seed):
            dealer = TEXT.describe(observation).partition("The dealer shows ")[2]
            assert observation.done or len(dealer.split()) == 1


def test_catch_is_described_in_rows_and_columns() -> None:
    env = OpenSpielEnvironment("catch")
    start = env.reset(seed=3)
    column = start.info_state.index(1.0)

    assert TEXT.describe(start) == f"Ball in row 0, column {column}. Paddle in column 2."
    assert TEXT.describe(play(env, start, 0, 0)) == f"Ball in row 2, column {column}. Paddle in column 0."
    assert list(TEXT.replies(start)) == ["left", "stay", "right"]


@pytest.mark.parametrize(
    ("last_row", "description"),
    [
        ("..x.o", "Ball in row 1, column 4. Paddle in column 2."),
        ("..x..", "Ball in row 1, column 2. Paddle in column 2."),
    ],
)
def test_catch_is_right_in_the_last_row_too(last_row: str, description: str) -> None:
    assert TEXT.describe(_seen("catch", f".....\n{last_row}\n", [])) == description


def test_the_situations_of_catch_are_where_the_ball_is() -> None:
    boards = {"o...\n..x.": "ball left", "..o.\n..x.": "ball above", "...o\n..x.": "ball right"}

    assert {board: TEXT.situation(_seen("catch", board, [])) for board in boards} == boards


def test_tic_tac_toe_shows_nine_cells_and_names_them() -> None:
    env = OpenSpielEnvironment("tic_tac_toe", opponent_policy="first")
    observation = play(env, env.reset(seed=0), 4)

    assert TEXT.describe(observation) == "You are x.\no  b1 c1\na2 x  c2\na3 b3 c3"
    assert list(TEXT.replies(observation)) == ["b1", "c1", "a2", "c2", "a3", "b3", "c3"]
    assert TEXT.parse("c3", observation) == OpenSpielAction(action_id=8)


def test_connect_four_names_each_column_from_the_bottom_up_and_shows_the_board() -> None:
    env = OpenSpielEnvironment("connect_four", opponent_policy="first", agent_player=1)
    observation = env.reset(seed=0)
    for column in (3, 0, 3):
        observation = env.step(OpenSpielAction(action_id=column))

    assert TEXT.describe(observation) == (
        "You are o. Columns from the bottom up: 0 x x o x x, 1, 2, 3 o o, 4, 5, 6.\n"
        ". . . . . . .\n"
        "x . . . . . .\n"
        "x . . . . . .\n"
        "o . . . . . .\n"
        "x . . o . . .\n"
        "x . . o . . .\n"
        "0 1 2 3 4 5 6"
    )
    assert list(TEXT.replies(observation)) == ["0", "1", "2", "3", "4", "5", "6"]
    assert TEXT.parse("column 5", observation) == OpenSpielAction(action_id=5)


def test_the_columns_of_a_wide_board_stand_below_each_other() -> None:
    env = OpenSpielEnvironment("connect_four", game_params={"rows": 4, "columns": 11})
    _, *rows, numbers = TEXT.describe(env.reset(seed=0)).split("\n")

    assert numbers == " 0  1  2  3  4  5  6  7  8  9 10"
    assert {len(row) for row in rows} == {len(numbers)}


def test_connect_four_fits_the_prompts_of_the_learning_benchmark() -> None:
    """Words and punctuation are tokens there; the chat template has a few of its own."""
    budget = yaml.safe_load((ROOT / "benchmarks/learning.yaml").read_text())["max_req_tokens"]
    full = _seen("connect_four", "xoxoxox\n" * 6, ["x0"])

    assert len(re.findall(r"\w+|[.,:]", TEXT.describe(full))) + 8 <= budget


def test_go_names_points_and_moves_alike() -> None:
    env = OpenSpielEnvironment("go", game_params={"board_size": 5}, opponent_policy="first")
    observation = env.reset(seed=0)
    assert TEXT.describe(observation).endswith("You are x. Legal moves: " + " ".join(TEXT.replies(observation)))
    observation = env.step(TEXT.replies(observation)["c3"])

    board = " 5 . . . . .\n 4 . . . . .\n 3 . . x . .\n 2 . . . . .\n 1 o . . . .\n   a b c d e\n"
    assert TEXT.describe(observation).startswith(f"{board}komi 7.5\nYou are x. Legal moves: b1 c1")
    assert list(TEXT.replies(observation))[-1] == "pass"
    assert TEXT.instructions(observation).endswith("Reply with one of the legal moves that each message lists.")


BOARD_GAMES = {
    "go": {"board_size": 5},
    "othello": {},
    "breakthrough": {},
    "checkers": {},
    "clobber": {},
    "lines_of_action": {},
    "hex": {"board_size": 11},
}


def _board(observation: OpenSpielObservation) -> dict[str, str]:
    """The cell of each square of a described board, by its name."""
    lines = [line.split() for line in TEXT.describe(observation).split("\n")]
    files = next(line for line in lines if line[0] == "a")
    ranks = lines[: lines.index(files)]
    return {f"{file}{rank[0]}": cell for rank in ranks for file, cell in zip(files, rank[1:], strict=True)}


@pytest.mark.parametrize("game", BOARD_GAMES)
@pytest.mark.parametrize("seat", [0, 1])
def test_a_move_names_squares_of_the_board_and_the_piece_that_moves_is_the_players(game: str, seat: int) -> None:
    environment = OpenSpielEnvironment(game, game_params=BOARD_GAMES[game], agent_player=seat)
    for observation in random_episode(environment, 3):
        if observation.done:
            continue
        board, legal = _board(observation), list(TEXT.replies(observation))
        mark = re.search(r"You are (.)\.", TEXT.describe(observation))[1]
        own = {"o": "o8", "+": "+*"}.get(mark, mark) if game == "checkers" else mark
        for name in legal:
            if name == "pass":
                continue
            assert (board[name] == ".") if name in board else (board[name[:2]] in own and name[-2:] in board)
        assert len(set(legal)) == len(legal)
        assert TEXT.describe(observation).endswith(f"Legal moves: {' '.join(legal)}")


def test_a_piece_of_the_player_is_taken_by_name_without_a_mark() -> None:
    board = "3.b.\n2w..\n1w.w\n abc\n"
    observation = _seen("breakthrough", board, ["a2a3", "a2b3*"])

    assert TEXT.describe(observation) == "3 . b .\n2 w . .\n1 w . w\n  a b c\nYou are b. Legal moves: a2a3 a2b3"
    assert TEXT.parse("a2b3", observation) == OpenSpielAction(action_id=1)


def test_the_board_of_a_finished_game_has_no_moves() -> None:
    last = random_episode(OpenSpielEnvironment("othello"), 1)[-1]

    assert TEXT.describe(last).endswith("\n  a b c d e f g h")


@pytest.mark.parametrize("game", ["blackjack", "catch", "tic_tac_toe", "connect_four"])
def test_each_reply_of_the_described_games_is_one_word(game: str) -> None:
    for observation in random_episode(OpenSpielEnvironment(game), 1):
        assert all(len(reply.split()) == 1 for reply in TEXT.replies(observation))


def test_any_other_game_has_the_text_of_openspiel_and_the_legal_actions() -> None:
    observation = OpenSpielEnvironment("y", game_params={"board_size": 3}).reset(seed=0)

    described = TEXT.describe(observation)

    assert described.startswith(observation.metadata["text"].rstrip())
    assert described.endswith("\nLegal replies: a1, b1, c1, a2, b2, a3.")
    assert TEXT.situation(observation) is None


@pytest.mark.parametrize(
    "game",
    ["blackjack", "catch", "tic_tac_toe", "connect_four", "chess", "kuhn_poker", "go_fish", "othello", "breakthrough"],
)
def test_each_reply_is_parsed_as_its_own_action(game: str) -> None:
    for observation in random_episode(OpenSpielEnvironment(game), 2):
        for wording, action in TEXT.replies(observation).items():
            assert TEXT.parse(wording, observation) == action
            assert TEXT.wording(action, observation) == wording
        assert [a.action_id for a in TEXT.replies(observation).values()] == observation.legal_actions


def test_case_matters_where_two_moves_differ_only_by_it() -> None:
    observation = _seen("chess", "a board", ["bxc3", "Bxc3"])

    assert TEXT.parse("Bxc3", observation) == OpenSpielAction(action_id=1)
    assert TEXT.parse("bxc3", observation) == OpenSpielAction(action_id=0)


def test_equal_names_get_the_number_of_their_action() -> None:
    observation = _seen("some_game", "words", ["Draw", "Draw", "Pass"])

    assert list(TEXT.replies(observation)) == ["Draw #0", "Draw #1", "Pass"]
    assert TEXT.wording(OpenSpielAction(action_id=1), observation) == "Draw #1"
    assert TEXT.wording(OpenSpielAction(action_id=3), observation) is None


@pytest.mark.parametrize("reply", ["", "hit or stand", "double", "hitting", "0"])
def test_a_reply_that_names_no_action_or_two_is_none(reply: str) -> None:
    assert TEXT.parse(reply, _hand("CK H3", "?? H7")) is None


def test_a_sentence_that_names_one_action_is_that_action() -> None:
    assert TEXT.parse("I would STAND here.", _hand("CK H3", "?? H7")) == OpenSpielAction(action_id=1)


def test_instructions_name_the_replies() -> None:
    assert TEXT.instructions(_hand("CK H3", "?? H7")).endswith("Reply with one of these: hit, stand.")


@pytest.mark.parametrize(
    ("text", "description"),
    [
        ("2", "You hold K. No player has moved."),
        ("0p", "You hold J. The other passes."),
        ("1pbb", "You hold Q. The other passes, you bet, the other bets."),
    ],
)
def test_kuhn_poker_names_the_card_and_the_moves(text: str, description: str) -> None:
    observation = _seen("kuhn_poker", text, ["Pass", "Bet"])
    observation.metadata["agent_player"] = 1

    assert TEXT.describe(observation) == description
    assert list(TEXT.replies(observation)) == ["pass", "bet"]


def test_leduc_poker_names_the_cards_and_what_each_has_paid() -> None:
    text = "[Observer: 0][Private: 2][Round 2][Player: 0][Pot: 6][Money: 99 95][Public: 4][Round1: 1 1][Round2: 1 2]"
    observation = _seen("leduc_poker", text, ["Fold", "Call", "Raise"])

    assert TEXT.describe(observation) == (
        "You hold Q. The public card is K. Paid: you 1 and the other 5.\nLegal replies: fold, call, raise."
    )
    last = _seen("leduc_poker", text.replace("99 95", "103 97"), [])
    assert TEXT.describe(last) == "You hold Q. The public card is K. You leave with 103 of 100 chips."


@pytest.mark.parametrize("game", ["kuhn_poker", "leduc_poker"])
@pytest.mark.parametrize("params", [{"players": 2}, {"players": 3}])
def test_poker_of_each_size_names_the_agents_card(game: str, params: dict[str, int]) -> None:
    environment = OpenSpielEnvironment(game, game_params=params, agent_player=1)
    for seed in range(10):
        for observation in random_episode(environment, seed):
            card = TEXT.describe(observation).split()[2].strip(".")
            number = int(re.search(r"Private: (\d)|^(\d)", observation.metadata["text"])[0][-1])
            ranks = ["10", "J", "Q", "K"][3 - params["players"] :]
            assert card == ranks[number // 2 if game == "leduc_poker" else number]


def test_goofspiel_names_each_card_and_a_bid_is_its_number() -> None:
    env = OpenSpielEnvironment("goofspiel")
    start = env.reset(seed=1)

    lines = TEXT.describe(start).splitlines()
    assert lines[:2] == ["Current point card: 3", "Remaining Point Cards: 1 2 4 5 6 7 8 9 10 11 12 13"]
    assert lines[-1] == "You are P0."
    assert list(TEXT.replies(start)) == [str(card) for card in range(1, 14)]
    for observation in random_episode(env, 5):
        remaining = next(line for line in TEXT.describe(observation).splitlines() if line.startswith("Remaining"))
        cards = list(map(int, remaining.split()[3:]))
        assert cards == sorted(set(cards))


def test_goofspiel_with_hidden_bids_keeps_openspiels_lines() -> None:
    start = OpenSpielEnvironment("goofspiel").reset(seed=1, game_params={"imp_info": True, "num_cards": 4})

    assert TEXT.describe(start).splitlines()[0] == "P0 hand: 1 2 3 4"
    assert list(TEXT.replies(start)) == ["1", "2", "3", "4"]


def test_nim_is_described_by_its_piles_and_a_reply_names_pile_and_number() -> None:
    env = OpenSpielEnvironment("nim")
    start = env.reset(seed=1)

    assert TEXT.describe(start) == "Piles: 1, 3, 5, 7."
    assert "Taking the very last one loses the game." in TEXT.instructions(start)
    assert {"1 take 1", "4 take 7"} <= TEXT.replies(start).keys()
    action = TEXT.parse("3 take 5", start)
    assert action is not None
    assert env.step(action).metadata["text"].split()[3] == "0"
    wins = env.reset(seed=1, game_params={"is_misere": False})
    assert "Taking the very last one wins the game." in TEXT.instructions(wins)


def test_the_first_row_of_2048_keeps_its_columns() -> None:
    first, second, *_ = TEXT.describe(OpenSpielEnvironment("2048").reset(seed=1)).splitlines()

    assert len(first) == len(second)
