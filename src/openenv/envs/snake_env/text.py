"""Text interface of the snake environment: a short prompt that names what matters, and the board below it."""

from collections.abc import Mapping

from openenv.envs.snake_env.models import SnakeAction, SnakeObservation
from openenv.text.interface import TextInterface


class SnakeText(TextInterface[SnakeAction, SnakeObservation]):
    """Replies are directions."""

    history = "latest"

    def instructions(self, observation: SnakeObservation) -> str:
        """The rules, and how to write a reply."""
        return (
            "Steer the snake to its food. It grows with each piece, and dies at the wall, in its own body, or without "
            "food for too long. A message says how far the food is and what lies ahead; on the board H is the head, o "
            "the body, t the tail, F the food. Reply with one of these: north, south, west, east. It cannot turn back."
        )

    def describe(self, observation: SnakeObservation) -> str:
        """Such as `You face east. Food: north 2, west 1. Ahead free, left wall, right free.`, and the board."""
        seen = observation
        near = f"Ahead {seen.ahead}, left {seen.left}, right {seen.right}."
        words = f"You face {seen.direction}. Food: {_way_to_food(seen)}. {near}"
        return f"{words} Length {seen.length}, starves in {seen.hunger} steps.\n{seen.board}"

    def replies(self, observation: SnakeObservation) -> Mapping[str, SnakeAction]:
        """The legal directions."""
        return {direction: SnakeAction(direction=direction) for direction in observation.legal_actions}

    def situation(self, observation: SnakeObservation) -> str:
        """What is ahead."""
        return f"{observation.ahead} ahead"


def _way_to_food(seen: SnakeObservation) -> str:
    """Such as `north 2, west 1`: how far the food is, in rows and columns."""
    if seen.food_row is None or seen.food_column is None:
        return "none"
    rows, columns = seen.food_row - seen.head_row, seen.food_column - seen.head_column
    parts = [f"{'south' if rows > 0 else 'north'} {abs(rows)}"] if rows else []
    parts += [f"{'east' if columns > 0 else 'west'} {abs(columns)}"] if columns else []
    return ", ".join(parts)
