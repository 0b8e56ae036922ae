"""Text interface of OpenSpiel games: sentences for the known ones, boards with labels, OpenSpiel's text for others."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import NamedTuple

from openenv.envs.openspiel_env.boards import (
    go_board,
    named_cells,
    numbered_columns,
    othello_board,
    ranks_and_files,
    slanted_rows,
)
from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation
from openenv.envs.openspiel_env.poker import describe_kuhn, describe_leduc
from openenv.text.interface import TextInterface
from openenv.text.sentences import LISTED_REPLIES, enumeration, legal_replies, reply_with_one_of

BLACKJACK_GOAL = 21
ACE_EXTRA = 10


class GameText(NamedTuple):
    """Prompts and replies of one game."""

    rules: str
    """The goal in a few sentences, with `{game}` for its name and `{last}` for what the last object of nim does."""
    describe: Callable[[OpenSpielObservation], str]
    """Maps an observation to a sentence or two, and a board."""
    reply: Callable[[str], str]
    """Maps OpenSpiel's name of an action to the player's reply."""
    situation: Callable[[OpenSpielObservation], str | None]
    """Maps an observation to the kind of decision, or None."""
    reply_form: str | None = None
    """How to write a reply; None: the instructions list the replies."""


class OpenSpielText(TextInterface[OpenSpielAction, OpenSpielObservation]):
    """Describes any OpenSpiel game from the observation alone."""

    history = "latest"

    def instructions(self, observation: OpenSpielObservation) -> str:
        """Return the rules, and how to write a reply."""
        game, metadata = _game_text(observation), observation.metadata
        rules = game.rules.format(game=metadata["game_name"].replace("_", " "), last=_nim_verb(observation))
        return f"{rules} {game.reply_form or reply_with_one_of(self.replies(observation))}"

    def describe(self, observation: OpenSpielObservation) -> str:
        """Return what the agent's seat observes."""
        return _game_text(observation).describe(observation)

    def replies(self, observation: OpenSpielObservation) -> Mapping[str, OpenSpielAction]:
        """Return a reply for each legal action. A name that two actions share gets the action's number."""
        wordings = zip(_wordings(observation), observation.legal_actions, strict=True)
        return {wording: OpenSpielAction(action_id=action_id) for wording, action_id in wordings}

    def wording(self, action: OpenSpielAction, observation: OpenSpielObservation) -> str | None:
        """Return the reply that names an action, by its number. None if the action is not legal."""
        wordings = zip(observation.legal_actions, _wordings(observation), strict=True)
        return next((wording for action_id, wording in wordings if action_id == action.action_id), None)

    def situation(self, observation: OpenSpielObservation) -> str | None:
        """Return `hard 16` or `soft 18` in blackjack, the direction of the ball in catch, else None."""
        return _game_text(observation).situation(observation)


def _wordings(observation: OpenSpielObservation) -> list[str]:
    """Return the reply that names each legal action."""
    reply = _game_text(observation).reply
    names = [reply(name) for name in observation.metadata["legal_action_names"]]
    if len(set(names)) == len(names):
        return names
    shared = {name for name, count in Counter(names).items() if count > 1}
    pairs = zip(names, observation.legal_actions, strict=True)
    return [f"{name} #{action_id}" if name in shared else name for name, action_id in pairs]


def _game_text(observation: OpenSpielObservation) -> GameText:
    return GAME_TEXTS.get(observation.metadata["game_name"], ANY_GAME)


def blackjack_hand(observation: OpenSpielObservation) -> tuple[list[str], list[str]]:
    """Return the ranks of the player's cards and of the dealer's open cards, as A 2 ... 10 J Q K."""
    lines = observation.metadata["text"].splitlines()
    hands = {line.split(":")[0]: line.split("Cards:")[1].split() for line in lines if "Cards:" in line}
    return _ranks(hands["Player 0"]), _ranks(hands["Dealer"])


def _ranks(cards: list[str]) -> list[str]:
    """Parse OpenSpiel's cards: the suit comes first, a ten is T, a card face down is ??."""
    return [card[1:].replace("T", "10") for card in cards if card != "??"]


def blackjack_total(ranks: list[str]) -> tuple[int, bool]:
    """Return the total of a hand, and whether an ace in it counts as 11."""
    hard = sum(1 if rank == "A" else 10 if rank in "JQK" else int(rank) for rank in ranks)
    soft = "A" in ranks and hard + ACE_EXTRA <= BLACKJACK_GOAL
    return hard + ACE_EXTRA * soft, soft


def _describe_blackjack(observation: OpenSpielObservation) -> str:
    own, dealer = blackjack_hand(observation)
    return f"You have {enumeration(own)}, {_situation_blackjack(observation)}. The dealer shows {enumeration(dealer)}."


def _situation_blackjack(observation: OpenSpielObservation) -> str:
    total, soft = blackjack_total(blackjack_hand(observation)[0])
    return f"{'soft' if soft else 'hard'} {total}"


def catch_positions(observation: OpenSpielObservation) -> tuple[int, int, int]:
    """Return row and column of the ball and column of the paddle, from 0. A caught ball is hidden by the paddle."""
    rows = observation.metadata["text"].split()
    paddle = rows[-1].index("x")
    for row, cells in enumerate(rows):
        if "o" in cells:
            return row, cells.index("o"), paddle
    return len(rows) - 1, paddle, paddle


def _describe_catch(observation: OpenSpielObservation) -> str:
    row, column, paddle = catch_positions(observation)
    return f"Ball in row {row}, column {column}. Paddle in column {paddle}."


def _situation_catch(observation: OpenSpielObservation) -> str:
    _, column, paddle = catch_positions(observation)
    return "ball left" if column < paddle else "ball right" if column > paddle else "ball above"


def _describe_connect_four(observation: OpenSpielObservation) -> str:
    """Return the player's disc, the discs of each column from the bottom up, and the board.

    Such as `You are o. Columns from the bottom up: 0 x o, 1, 2 x.` People and large models read the board, a tiny
    model the columns.
    """
    text = observation.metadata["text"]
    columns = ("".join(cells).replace(".", "")[::-1] for cells in zip(*text.split(), strict=True))
    discs = ", ".join(" ".join([str(number), *column]) for number, column in enumerate(columns))
    return f"You are {_mark(observation)}. Columns from the bottom up: {discs}.\n{numbered_columns(text)}"


def _mark(observation: OpenSpielObservation) -> str:
    """Return the mark of the agent's seat, where x moves first."""
    return "xo"[observation.metadata["agent_player"]]


def _describe_tic_tac_toe(observation: OpenSpielObservation) -> str:
    """Return the player's mark, and the board in which a free cell has its name."""
    return f"You are {_mark(observation)}.\n{named_cells(observation.metadata['text'])}"


def _cell(name: str) -> str:
    """Convert `x(1,2)`, row and column from the top left, to c2."""
    row, column = name[2:-1].split(",")
    return f"{'abc'[int(column)]}{int(row) + 1}"


def _describe_any(observation: OpenSpielObservation) -> str:
    """Return OpenSpiel's text, then its names of the legal actions."""
    names = observation.metadata["legal_action_names"]
    text = observation.metadata["text"].strip("\n").rstrip()  # the spaces before a board's first cell align it
    return f"{text}\n{legal_replies(map(_one_line, names))}" if names else text


def _describe_goofspiel(observation: OpenSpielObservation) -> str:
    """Return OpenSpiel's text with spaces between the point cards that remain, and the agent's seat."""
    lines = [line.strip() for line in observation.metadata["text"].strip().splitlines()]
    hand = next((line for line in lines if " hand: " in line), "").partition(":")[2].split()
    for number, line in enumerate(lines):
        name, _, digits = line.partition(": ")
        if name == "Remaining Point Cards":
            lines[number] = f"{name}: {' '.join(_ascending_cards(digits, len(hand) - 1))}"
    return "\n".join([*lines, f"You are P{observation.metadata['agent_player']}."])


def _ascending_cards(digits: str, count: int) -> list[str]:
    """Return the numbers, below 100 and ascending, that digits without spaces stand for."""
    num_short = 2 * count - len(digits)
    return [*digits[:num_short], *(digits[start : start + 2] for start in range(num_short, len(digits), 2))]


def _describe_nim(observation: OpenSpielObservation) -> str:
    """Return the sizes of the piles, such as `Piles: 1, 3, 5, 7.`"""
    _, _, piles = observation.metadata["text"].partition(": ")
    return f"Piles: {', '.join(piles.split())}."


def _nim_verb(observation: OpenSpielObservation) -> str:
    """Return whether taking the last object `loses` or `wins`, which parameters may have changed."""
    return "loses" if observation.metadata.get("game_params", {}).get("is_misere", True) else "wins"


def _nim_reply(name: str) -> str:
    """Convert `pile:3, take:5;` to `3 take 5`."""
    pile, take = (part.partition(":")[2] for part in name.rstrip(";").split(", "))
    return f"{pile} take {take}"


def _board_game(
    rules: str, draw: Callable[[str], str], marks: tuple[str, str], reply: Callable[[str], str] = str.lower
) -> GameText:
    """Return the text of a game of two seats on a board. marks: the pieces of each seat. reply: names an action."""

    def describe(observation: OpenSpielObservation) -> str:
        metadata = observation.metadata
        board = draw(metadata["text"])
        if not observation.legal_actions:
            return board
        legal = " ".join(map(reply, metadata["legal_action_names"]))
        return f"{board}\nYou are {marks[metadata['agent_player']]}. Legal moves: {legal}"

    return GameText(rules, describe, reply, _no_situation, "Reply with one of the legal moves that each message lists.")


def _one_line(name: str) -> str:
    return " ".join(name.split())


def _no_situation(_observation: OpenSpielObservation) -> None:
    return None


ANY_GAME = GameText("Play {game} to win.", _describe_any, _one_line, _no_situation, LISTED_REPLIES)

TIC_TAC_TOE = GameText(
    rules="Tic tac toe: x moves first, and three in a row win. The board shows the marks; a free cell shows its name.",
    describe=_describe_tic_tac_toe,
    reply=_cell,
    situation=_no_situation,
    reply_form="Reply with the name of a free cell, such as b2.",
)

GAME_TEXTS: dict[str, GameText] = {
    "blackjack": GameText(
        rules="Blackjack: come closer to 21 than the dealer without going over. The total of your cards is given: "
        "it is soft if an ace counts 11, else hard.",
        describe=_describe_blackjack,
        reply=str.lower,
        situation=_situation_blackjack,
    ),
    "catch": GameText(
        rules="Catch: the ball falls one row each turn. Move the paddle to be under it when it lands in the last row. "
        "Rows count from 0 at the top, columns from 0 at the left.",
        describe=_describe_catch,
        reply=str.lower,
        situation=_situation_catch,
    ),
    "connect_four": GameText(
        rules="Connect four: x moves first, and four in a row win. A message lists the discs of each column, then "
        "shows the board with the numbers of its columns below.",
        describe=_describe_connect_four,
        reply=lambda name: name[1:],
        situation=_no_situation,
    ),
    "goofspiel": GameText(
        rules="Goofspiel: each turn all players bid a card of their hand, and the highest bid wins the point card. "
        "Cards that were bid are gone. The most points win. Win sequence names the winner of each turn.",
        describe=_describe_goofspiel,
        reply=lambda name: name.rpartition(" ")[2],
        situation=_no_situation,
        reply_form="Reply with a card of your hand, such as 7.",
    ),
    "kuhn_poker": GameText(
        rules="Kuhn poker: each player pays 1 and holds one card; two players share J, Q and K. To bet adds 1. After "
        "a bet, to bet again calls it, and to pass folds. The highest card wins.",
        describe=describe_kuhn,
        reply=str.lower,
        situation=_no_situation,
    ),
    "leduc_poker": GameText(
        rules="Leduc poker: the deck has each rank twice; two players share J, Q and K. Each pays 1 and holds one "
        "card. After a round of bets a public card follows, then another round. A pair with it wins, else the highest "
        "card. A raise adds 2, in the second round 4. Without a raise before it, call adds nothing.",
        describe=describe_leduc,
        reply=str.lower,
        situation=_no_situation,
        reply_form=LISTED_REPLIES,
    ),
    "nim": GameText(
        rules="Nim: take as many objects as you like from one pile. Taking the very last one {last} the game.",
        describe=_describe_nim,
        reply=_nim_reply,
        situation=_no_situation,
        reply_form="Reply with the pile, counted from 1, and the number: 2 take 3 takes three from the second pile.",
    ),
    "go": _board_game(
        "Go: x is black and moves first, o is white. Surround stones to take them and points to own them.",
        go_board,
        ("x", "o"),
        lambda name: name[2:].lower(),
    ),
    "othello": _board_game(
        "Othello: x moves first. A disc turns the lines of other discs that it encloses. The most discs win.",
        othello_board,
        ("x", "o"),
    ),
    "breakthrough": _board_game(
        "Breakthrough: b moves first, down the board, w moves up. Step ahead or diagonally, take diagonally. The first "
        "on the last row wins. A move is the square that a piece leaves and the one where it goes.",
        ranks_and_files,
        ("b", "w"),
        lambda name: name.rstrip("*"),
    ),
    "checkers": _board_game(
        "Checkers: o moves first, up the board, + moves down; 8 and * are their kings. Jumps take and must be made. "
        "A move is the square that a piece leaves and the one where it goes.",
        ranks_and_files,
        ("o", "+"),
    ),
    "clobber": _board_game(
        "Clobber: o moves first. A piece moves onto one of the other's beside it. Without a move you lose. "
        "A move is the square that a piece leaves and the one where it goes.",
        ranks_and_files,
        ("o", "x"),
    ),
    "lines_of_action": _board_game(
        "Lines of action: x moves first. A piece moves as many cells as its line has pieces. Connect all of yours.",
        ranks_and_files,
        ("x", "o"),
    ),
    "hex": _board_game(
        "Hex: x moves first and connects top and bottom, o connects left and right.",
        slanted_rows,
        ("x", "o"),
    ),
    "tic_tac_toe": TIC_TAC_TOE,
    "python_tic_tac_toe": TIC_TAC_TOE,
}
