"""Policies that need no learning: random and constant play, the blackjack chart, and perfect play of catch."""

from collections.abc import Sequence
from random import Random
from typing import Any

from openenv.core.env_server.types import Action
from openenv.envs.openspiel_env.solvers.blackjack_chart import chart_hits
from openenv.envs.openspiel_env.text import blackjack_hand, blackjack_total
from openenv.policies.base import Policy, legal_names
from openenv.text.interface import TextInterface

HIT, STAND = 0, 1
_MOST_DRAWS = 100
"""Actions of random play that an environment may refuse in a row."""
COLUMNS = 5
LEFT, STAY, RIGHT = 0, 1, 2


class RandomPolicy(Policy):
    """Chooses each legal action with the same probability. Where the environment refuses one, it draws again."""

    name = "random"

    def __init__(self, seed: int | str | None = None, *, text: TextInterface[Any, Any] | None = None) -> None:
        """seed: equal seeds give equal choices; None takes a seed from the system.

        text: gives the random replies, for environments whose observations have no `legal_actions`.
        """
        self._rng = Random(seed)
        self._text = text

    def select_action(self, observation: Any) -> Any:
        """One of the legal actions."""
        if self._text is not None:
            return self.select_reply(observation)[1]
        return self._rng.choice(self.legal_choices(observation))

    def on_refusal(self, episode: int, reason: str, refusals: int) -> bool:
        """Draw again, so that play is legal where the observation does not name the legal actions."""
        return refusals < _MOST_DRAWS

    def select_reply(self, observation: Any) -> tuple[str, Action]:
        """A random reply of the text interface, and the action that it names. Raises ValueError without `text`."""
        if self._text is None:
            raise ValueError("RandomPolicy was created without a text interface: give text=...")
        return self._text.random_reply(observation, self._rng)

    def legal_choices(self, observation: Any) -> Sequence[Any]:
        """The actions to choose from, without a text interface."""
        legal: Sequence[int] = observation.legal_actions
        return legal


class ConstantPolicy(Policy):
    """Always chooses the action of one name, such as `stay` in catch or `stand` in blackjack."""

    def __init__(
        self,
        action_name: str = "stay",
        *,
        otherwise: int | None = None,
        text: TextInterface[Any, Any] | None = None,
    ) -> None:
        """otherwise: the action number to choose if no legal action has that name. text: names the actions of
        environments whose observations have no `legal_actions`.
        """
        self.name = f"always {action_name}"
        self._action_name = action_name.lower()
        self._otherwise = otherwise
        self._text = text

    def select_action(self, observation: Any) -> Any:
        """The action. Raises ValueError if it is not legal."""
        legal = getattr(observation, "legal_actions", None)
        if self._text is not None and not (legal and isinstance(legal[0], int)):
            action = self._text.parse(self._action_name, observation)
            if action is None:
                raise ValueError(f"{self.name}: {self._text.problem(self._action_name, observation)}")
            return action
        names = legal_names(observation)
        if self._action_name in names:
            number: int = observation.legal_actions[names.index(self._action_name)]
            return number
        if self._otherwise in observation.legal_actions:
            assert self._otherwise is not None
            return self._otherwise
        raise ValueError(f"{self.name}: no legal action has that name. Legal: {', '.join(names)}.")


class BlackjackChartPolicy(Policy):
    """Plays blackjack by the textbook chart: wins 43.24 % of games, mean return -0.0428 (the optimum is -0.0425)."""

    name = "chart"

    def select_action(self, observation: Any) -> int:
        """Hit or stand. Raises ValueError for another game than blackjack."""
        game = observation.metadata.get("game_name")
        if game != "blackjack":
            raise ValueError(f"game_name={game!r}: the chart policy plays blackjack only.")
        own, dealer = blackjack_hand(observation)
        return HIT if chart_hits(*blackjack_total(own), dealer[0]) else STAND


class CatchPolicy(Policy):
    """Moves the paddle toward the ball's column and stays below it: it catches every ball."""

    name = "smart"

    def __init__(self, columns: int = COLUMNS) -> None:
        """columns: width of the grid, which `game_params` can change."""
        self._columns = columns

    def select_action(self, observation: Any) -> int:
        """Left, stay or right. Raises ValueError if `info_state` is not a grid of catch."""
        ball, paddle = ball_and_paddle(observation.info_state, self._columns)
        return LEFT if ball < paddle else RIGHT if ball > paddle else STAY


def ball_and_paddle(info_state: list[float], columns: int = COLUMNS) -> tuple[int, int]:
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
