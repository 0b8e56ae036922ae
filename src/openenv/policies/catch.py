"""Perfect play of catch, read from the grid of numbers."""

from typing import Any

from openenv.policies.base import Policy

COLUMNS = 5
LEFT, STAY, RIGHT = 0, 1, 2


class CatchPolicy(Policy):
    """Moves the paddle toward the ball's column, and stays when it is under it: it catches every ball."""

    name = "smart"

    def __init__(self, columns: int = COLUMNS) -> None:
        """columns: width of the grid, for a game with other `game_params`."""
        self._columns = columns

    def select_action(self, observation: Any) -> int:
        """Left, stay or right. Raises ValueError where `info_state` is no grid of catch."""
        ball, paddle = ball_and_paddle(observation.info_state, self._columns)
        return LEFT if ball < paddle else RIGHT if ball > paddle else STAY


def ball_and_paddle(info_state: list[float], columns: int = COLUMNS) -> tuple[int, int]:
    """The columns of the ball and of the paddle. info_state: rows * columns cells, row by row, 1 where something is.

    The paddle is in the last row; so is the ball at the end, and then the two cannot be told apart: the ball is
    taken for the first of two marks, and for the paddle's column when there is one mark only (the ball is caught).
    Raises ValueError for numbers that are no such grid.
    """
    marks = [index for index, value in enumerate(info_state) if value >= 0.5]
    if len(info_state) % columns or not 1 <= len(marks) <= 2 or marks[-1] < len(info_state) - columns:
        raise ValueError(
            f"info_state has {len(info_state)} values with {len(marks)} marks: a grid of catch has rows of {columns} "
            "cells, a ball, and a paddle in the last row. The smart policy plays catch only."
        )
    return marks[0] % columns, marks[-1] % columns
