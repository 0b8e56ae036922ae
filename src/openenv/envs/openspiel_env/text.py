"""Text interface of OpenSpiel games: short prompts, boards with labels for grid games, OpenSpiel's text for others."""

from collections import Counter
from collections.abc import Callable, Mapping
from typing import ClassVar, NamedTuple

from openenv.core.text_interface import History, TextInterface
from openenv.envs.openspiel_env.boards import (
    go_board,
    numbered_columns,
    othello_board,
    ranks_and_files,
    slanted_rows,
    spaced_rows,
)
from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation

BLACKJACK_GOAL = 21
ACE_EXTRA = 10


class GameText(NamedTuple):
    """Prompts and replies of one game."""

    rules: str
    """The goal, in a sentence or two."""
    describe: Callable[[OpenSpielObservation], str]
    """Maps an observation to a few words, separated by spaces."""
    reply: Callable[[str], str]
    """Maps OpenSpiel's name of an action to the player's reply."""
    situation: Callable[[OpenSpielObservation], str | None]
    """Maps an observation to the kind of decision, or None."""
    lists_legal: bool = False
    """Whether the description lists the legal actions."""


class OpenSpielText(TextInterface[OpenSpielAction, OpenSpielObservation]):
    """Describes any OpenSpiel game from the observation alone."""

    history: ClassVar[History] = "latest"

    def instructions(self, observation: OpenSpielObservation) -> str:
        """Return the rules, and the list of possible replies where the description has none."""
        game = _game_text(observation)
        if game.lists_legal:
            return f"{game.rules} Reply with one of the legal actions ."
        return f"{game.rules} Reply with one of these: {' , '.join(self.replies(observation))}"

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
    return f"cards {' '.join(own)} dealer {' '.join(dealer)}"


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
    return f"ball row {row} column {column} paddle column {paddle}"


def _situation_catch(observation: OpenSpielObservation) -> str:
    _, column, paddle = catch_positions(observation)
    return "ball left" if column < paddle else "ball right" if column > paddle else "ball above"


def _describe_connect_four(observation: OpenSpielObservation) -> str:
    """Return the discs of each column from the bottom up and the next disc, such as `columns 0 x o 1 2 x move o`.

    The board follows, for people and large models. A tiny model reads the columns.
    """
    text = observation.metadata["text"]
    columns = ("".join(cells).replace(".", "")[::-1] for cells in zip(*text.split(), strict=True))
    discs = " ".join(" ".join([str(number), *column]) for number, column in enumerate(columns))
    return f"columns {discs} move {_mark(observation)}\n{numbered_columns(text)}"


def _mark(observation: OpenSpielObservation) -> str:
    """Return the disc of the player whose move it is: OpenSpiel's names of actions begin with it."""
    return next((name[0].lower() for name in observation.metadata["legal_action_names"]), "-")


def _cell(name: str) -> str:
    """Convert `x(1,2)`, row and column from the top left, to c2."""
    row, column = name[2:-1].split(",")
    return f"{'abc'[int(column)]}{int(row) + 1}"


def _describe_any(observation: OpenSpielObservation) -> str:
    """Return OpenSpiel's text, then its names of the legal actions."""
    names = observation.metadata["legal_action_names"]
    text = observation.metadata["text"].strip("\n").rstrip()  # the spaces before a board's first cell align it
    return f"{text}\nlegal: {' , '.join(_one_line(name) for name in names)}"


def _describe_goofspiel(observation: OpenSpielObservation) -> str:
    """Return OpenSpiel's text with spaces between the point cards that remain, and the agent's seat."""
    lines = [line.strip() for line in observation.metadata["text"].strip().splitlines()]
    hand = next((line for line in lines if " hand: " in line), "").partition(":")[2].split()
    for number, line in enumerate(lines):
        name, _, digits = line.partition(": ")
        if name == "Remaining Point Cards":
            lines[number] = f"{name}: {' '.join(_ascending_cards(digits, len(hand) - 1))}"
    return "\n".join([*lines, f"You are P{observation.metadata['agent_player']}"])


def _ascending_cards(digits: str, count: int) -> list[str]:
    """Return the numbers, below 100 and ascending, that digits without spaces stand for."""
    num_short = 2 * count - len(digits)
    return [*digits[:num_short], *(digits[start : start + 2] for start in range(num_short, len(digits), 2))]


def _describe_nim(observation: OpenSpielObservation) -> str:
    """Return the sizes of the piles, and whether the last object loses where parameters may have changed it."""
    _, _, piles = observation.metadata["text"].partition(": ")
    is_misere = observation.metadata.get("game_params", {}).get("is_misere", True)
    return f"piles {piles.strip()} last {'loses' if is_misere else 'wins'}"


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
        return f"{board}\nmove {marks[metadata['agent_player']]}\nlegal {legal}"

    return GameText(rules, describe, reply, _no_situation, lists_legal=True)


def _one_line(name: str) -> str:
    return " ".join(name.split())


def _no_situation(_observation: OpenSpielObservation) -> None:
    return None


ANY_GAME = GameText("Play to win the game.", _describe_any, _one_line, _no_situation, lists_legal=True)

TIC_TAC_TOE = GameText(
    rules="Tic tac toe : x moves first ; three in a row win . Cells in reading order : a1 b1 c1 a2 b2 c2 a3 b3 c3 .",
    describe=lambda observation: spaced_rows(observation.metadata["text"]),
    reply=_cell,
    situation=_no_situation,
)

GAME_TEXTS: dict[str, GameText] = {
    "blackjack": GameText(
        rules="Blackjack : come closer to 21 than the dealer without going over .",
        describe=_describe_blackjack,
        reply=str.lower,
        situation=_situation_blackjack,
    ),
    "catch": GameText(
        rules="Catch : the ball falls one row each turn ; be under it when it lands .",
        describe=_describe_catch,
        reply=str.lower,
        situation=_situation_catch,
    ),
    "connect_four": GameText(
        rules="Connect four : x moves first ; four in a row win . Discs of each column from the bottom up , then "
        "the board with the numbers of its columns .",
        describe=_describe_connect_four,
        reply=lambda name: name[1:],
        situation=_no_situation,
    ),
    "goofspiel": GameText(
        rules="Goofspiel : the highest bid from the hands wins the point card , and each hand has a card once ; "
        "the most points win .",
        describe=_describe_goofspiel,
        reply=lambda name: name.rpartition(" ")[2],
        situation=_no_situation,
    ),
    "nim": GameText(
        rules="Nim : take as many as you like from one pile . last loses : taking the last one loses ; last wins : it "
        "wins . A reply is the number of the pile , from 1 , and how many to take .",
        describe=_describe_nim,
        reply=_nim_reply,
        situation=_no_situation,
    ),
    "go": _board_game(
        "Go : x is black and moves first , o is white ; surround stones to take them and points to own them .",
        go_board,
        ("x", "o"),
        lambda name: name[2:].lower(),
    ),
    "othello": _board_game(
        "Othello : x moves first ; a disc turns the lines of other discs that it encloses ; the most discs win .",
        othello_board,
        ("x", "o"),
    ),
    "breakthrough": _board_game(
        "Breakthrough : b moves down and first , w moves up ; step ahead or diagonally , take diagonally ; "
        "the first on the last row wins . A move is the square that a piece leaves and the one where it goes .",
        ranks_and_files,
        ("b", "w"),
        lambda name: name.rstrip("*"),
    ),
    "checkers": _board_game(
        "Checkers : o moves up and first , + moves down ; 8 and * are their kings ; jumps take and must be made . "
        "A move is the square that a piece leaves and the one where it goes .",
        ranks_and_files,
        ("o", "+"),
    ),
    "clobber": _board_game(
        "Clobber : o moves first ; a piece moves onto one of the other's beside it ; no move left loses . "
        "A move is the square that a piece leaves and the one where it goes .",
        ranks_and_files,
        ("o", "x"),
    ),
    "lines_of_action": _board_game(
        "Lines of action : x moves first ; a piece moves as many cells as its line has pieces ; connect all of yours .",
        ranks_and_files,
        ("x", "o"),
    ),
    "hex": _board_game(
        "Hex : x moves first and connects top and bottom , o connects left and right .",
        slanted_rows,
        ("x", "o"),
    ),
    "tic_tac_toe": TIC_TAC_TOE,
    "python_tic_tac_toe": TIC_TAC_TOE,
}
