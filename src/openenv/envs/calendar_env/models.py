"""First observation and state of the calendars. Actions are tool calls: CallToolAction, CallToolObservation."""

from pydantic import Field

from openenv.core.env_server.types import Observation, State


class CalendarObservation(Observation):
    """The task of an episode. The metadata has the `seed` and the `steps_left`."""

    METADATA_IS_PLAIN_JSON = True

    task: str = Field(description="What to do; times are in the time zone that it names")


class CalendarState(State):
    """The task of an episode, and how it ended."""

    kind: str = Field(default="", description="Kind of the task")
    level: int = Field(default=1, description="Difficulty: 1, 2 or 3")
    seed: int = Field(default=0, description="Determines people, events and the task")
    max_steps: int = Field(default=0, description="Tool calls after which the episode ends")
    task: str = Field(default="", description="What to do")
    answer: str | None = Field(default=None, description="What the tool `finish` was given; null before")
    reward: float | None = Field(default=None, description="1 or 0 once the episode has ended; null before")
