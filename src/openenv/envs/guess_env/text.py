"""Text interface of the guess environment: replies are digits, since a copy of the word would be no reading of it."""

from openenv.core.env_server.types import Action, Observation
from openenv.text.derived import DerivedText
from openenv.text.reading import final_answer


class GuessText(DerivedText):
    """The interface that follows from the messages, for numbers in digits alone."""

    def parse(self, reply: str, observation: Observation) -> Action | None:
        """The guess that a reply names in digits; None if it names none."""
        return super().parse(reply, observation) if _has_digit(reply) else None

    def problem(self, reply: str, observation: Observation) -> str:
        """What is wrong with a reply."""
        return super().problem(reply, observation) if _has_digit(reply) else "Reply with a whole number, in digits."


def _has_digit(reply: str) -> bool:
    return any(character.isdigit() for character in final_answer(reply))
