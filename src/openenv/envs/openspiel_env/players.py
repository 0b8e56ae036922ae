"""Players of blackjack and catch that need no search and no OpenSpiel: the textbook chart, and perfect play."""

from collections.abc import Sequence
from random import Random

from openenv.envs.openspiel_env.models import OpenSpielAction, OpenSpielObservation
from openenv.envs.openspiel_env.solvers.blackjack_chart import chart_hits
from openenv.envs.openspiel_env.text import blackjack_hand, blackjack_total

HIT, STAND = 0, 1
COLUMNS = 5
LEFT, STAY, RIGHT = 0, 1, 2


def chart(observation: OpenSpielObservation, _: Random) -> OpenSpielAction:
    """The textbook chart of blackjack: it wins 43.24 % of games, mean return -0.0428 (the optimum is -0.0425).

    Raises ValueError for another game.
    """
    game = observation.metadata.get("game_name")
    if game != "blackjack":
        raise ValueError(f"game_name={game!r}: the chart policy plays blackjack only.")
    own, dealer = blackjack_hand(observation)
    return OpenSpielAction(action_id=HIT if chart_hits(*blackjack_total(own), dealer[0]) else STAND)


def smart(observation: OpenSpielObservation, _: Random, columns: int = COLUMNS) -> OpenSpielAction:
    """Perfect play of catch: it moves the paddle toward the ball's column and stays below it.

    columns: width of the grid, which `game_params` can change. Raises ValueError if `info_state` is no grid of catch.
    """
    ball, paddle = ball_and_paddle(observation.info_state, columns)
    return OpenSpielAction(action_id=LEFT if ball < paddle else RIGHT if ball > paddle else STAY)


def ball_and_paddle(info_state: Sequence[float], columns: int = COLUMNS) -> tuple[int, int]:
    """The columns of the ball and of the paddle. info_state: rows * columns cells, row by row, 1 for ball and paddle.

    The paddle is in the last row. In the final observation the ball is too: then the first of two marks is taken as the
    ball, and a single mark as both (the ball is caught). Raises ValueError if the numbers are not such a grid.
    """
    marks = [index for index, value in enumerate(info_state) if value >= 0.5]
    if len(info_state) % columns or not 1 <= len(marks) <= 2 or marks[-1] < len(info_state) - columns:
        raise ValueError(
            f"info_state has {len(info_state)} values with {len(marks)} marks: a grid of catch has rows of {columns} "
            "cells, a ball, and a paddle in the last row. The smart policy plays catch only."
        )
    return marks[0] % columns, marks[-1] % columns
