"""Text interface of TextArena's games, which are text already."""

from collections.abc import Mapping

from openenv.envs.textarena_env.models import TextArenaAction, TextArenaObservation
from openenv.text.interface import TextInterface

NO_EXAMPLE = "[1]"
"""The random reply where the messages show no form of a reply."""


class TextArenaText(TextInterface[TextArenaAction, TextArenaObservation]):
    """Shows the game's own messages, and takes the whole reply. Random play chooses among the observation's
    examples, legal or not."""

    def instructions(self, observation: TextArenaObservation) -> str:
        """The first message has the rules."""
        return "Play the game. Reply in the form that it asks for."

    def describe(self, observation: TextArenaObservation) -> str:
        """The new messages."""
        return observation.text

    def replies(self, observation: TextArenaObservation) -> Mapping[str, TextArenaAction]:
        """The replies that the messages show."""
        shown = observation.examples or [NO_EXAMPLE]
        return {example: TextArenaAction(message=example) for example in shown}

    def constraint(self, observation: TextArenaObservation) -> None:
        """The examples are not all replies."""
        return

    def parse(self, reply: str, observation: TextArenaObservation) -> TextArenaAction | None:
        """The whole reply; None for an empty one."""
        message = reply.strip()
        return TextArenaAction(message=message) if message else None

    def problem(self, reply: str, observation: TextArenaObservation) -> str:
        """An empty reply."""
        return "the reply is empty. Reply in the form that the game asks for"
