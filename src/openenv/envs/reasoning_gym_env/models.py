"""Action, observation and state of the reasoning-gym environment."""

from typing import Any

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State

LONGEST_ANSWER = 20_000


class ReasoningGymAction(Action):
    """The answer to the question."""

    answer: str = Field(
        max_length=LONGEST_ANSWER, description="The answer alone, in the form for which the question asks"
    )


class ReasoningGymObservation(Observation):
    """A question, and after the answer its score as the reward. The metadata of the question contains `seed`."""

    METADATA_IS_PLAIN_JSON = True

    question: str = Field(description="The task, with the form of its answer")
    dataset: str = Field(description="Name of the dataset that the task is from")
    reference_answer: str | None = Field(
        default=None, description="A right answer, once the episode is done; null where the dataset has none"
    )


class ReasoningGymState(State):
    """What the episode asks."""

    dataset: str = Field(default="", description="Name of the dataset")
    level: int | None = Field(default=None, description="Level of the dataset's curriculum; null: its own defaults")
    settings: dict[str, Any] = Field(default_factory=dict, description="Settings of the dataset that were changed")
    seed: int | None = Field(default=None, description="What determines the task")
