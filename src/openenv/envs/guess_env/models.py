"""Action and observation of the guess environment."""

from pydantic import Field

from openenv.core.env_server.types import Action, Observation

WORDS = ("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine")


class GuessAction(Action):
    """A guess."""

    number: int = Field(ge=0, lt=len(WORDS), description="The number that the word names")


class GuessObservation(Observation):
    """The number to say."""

    word: str = Field(description="A number in words")
