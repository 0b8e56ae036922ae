"""The games of TextArena that work without a network, and how one is made."""

import difflib
import random
from collections.abc import Mapping
from functools import cache
from typing import Any

_BY_SEATS = {
    1: "2048 Bandit Blackjack Countdown Crosswords Cryptarithm FifteenPuzzle FrozenLake GuessTheNumber Hangman "
    "LightsOut LogicPuzzle Mastermind Minesweeper PegJump RushHour Secretary Set Slitherlink Sokoban Sudoku "
    "ThreeCardMonte TowerOfHanoi WordLadder WordSearch Wordle",
    2: "Alquerque Battleship Breakthrough Briscola Chopsticks ColonelBlotto ConnectFour Crusade DontSayIt "
    "GameOfPureStrategy GermanWhist Golf HighSociety IndianPoker IteratedMatchingPennies IteratedPrisonersDilemma "
    "IteratedRockPaperScissors IteratedTwoThirdsAverage IteratedUltimatumGame KuhnPoker LetterAuction LiarsDice "
    "LinesOfAction MemoryGame NewRecruit Nim Othello PigDice Poker QuantumTicTacToe SantoriniBaseFixed "
    "SimpleBlindAuction SimpleNegotiation SimpleTak Snake SpiteAndMalice Stratego Surround Tak TicTacToe "
    "TruthAndDeception TwoDollar UltimateTicTacToe WildTicTacToe WordChains",
    3: "ThreePlayerGOPS ThreePlayerIPD ThreePlayerTicTacToe",
    4: "Codenames SettlersOfCatan Taboo",
    6: "SecretMafia",
}
SEATS = {game: seats for seats, games in _BY_SEATS.items() for game in games.split()}
"""The number of seats of each game, by TextArena's name without its version."""
MOST_SEATS = 15


def tasks() -> Mapping[str, Mapping[str, Any]]:
    """Reset keywords of each game."""
    return {game: {"game": game} for game in sorted(SEATS)}


def check_game(game: object) -> str:
    """Return the name. Raises ValueError, with the nearest name, for one that is not among the games."""
    if isinstance(game, str) and game in SEATS:
        return game
    near = difflib.get_close_matches(str(game), SEATS, n=1)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    raise ValueError(f"game={game!r:.100}: expected one of {', '.join(sorted(SEATS))}.{hint}")


def make_game(game: str, num_players: int, seed: int) -> Any:
    """A new game before its first move. It draws from this process's global random numbers, which it seeds.

    Raises ValueError, with TextArena's reason, for a number of players that the game does not take.
    """
    textarena = _textarena()
    random.seed(seed)
    made = textarena.make(f"{game}-v0-raw")
    try:
        made.reset(num_players=num_players, seed=seed)
    except AssertionError as error:
        raise ValueError(f"num_players={num_players}: {error or f'{game} does not take so many'}") from error
    return made


@cache
def _textarena() -> Any:
    import textarena  # takes seconds: a server that only describes its games does without

    from openenv.envs.textarena_env.server.words import provide_words

    provide_words()
    return textarena
