"""Text interface of the maze environment: where the player is, where it came from, and the ways that are open."""

from collections.abc import Mapping

from openenv.envs.maze_env.models import MazeAction, MazeObservation
from openenv.text.interface import TextInterface
from openenv.text.sentences import enumeration


class MazeText(TextInterface[MazeAction, MazeObservation]):
    """Replies are directions. A player that turns back at dead ends alone finds the way."""

    history = "latest"

    def instructions(self, observation: MazeObservation) -> str:
        """The rules, and how to write a reply."""
        return (
            "Find the way through a maze, from its north-west corner to its south-east corner. Each step costs a "
            "little. Rows count from the north and columns from the west, both from 0. A message says where you are, "
            "where you came from, and which ways are open. Reply with one of the open ways, such as east."
        )

    def describe(self, observation: MazeObservation) -> str:
        """Such as `You are in row 0, column 1. You came from the west. The goal is in row 3, column 3. Open ways: west
        and south.`"""
        came = f" You came from the {observation.came_from}." if observation.came_from else ""
        ways = enumeration(observation.legal_actions)
        return (
            f"You are in row {observation.row}, column {observation.column}.{came} The goal is in row "
            f"{observation.goal_row}, column {observation.goal_column}. Open ways: {ways}."
        )

    def replies(self, observation: MazeObservation) -> Mapping[str, MazeAction]:
        """The directions without a wall."""
        return {direction: MazeAction(direction=direction) for direction in observation.legal_actions}

    def situation(self, observation: MazeObservation) -> str:
        """How many ways are open: a dead end, a corridor, or a fork."""
        return {1: "dead end", 2: "corridor"}.get(len(observation.legal_actions), "fork")
