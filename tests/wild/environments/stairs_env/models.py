"""Messages of the stairs, written with the imports of version 0.10.0."""

from typing import Any, Dict, List  # noqa: UP035  environments write their types so

from pydantic import Field

from openenv.core.env_server.types import Action, Observation, State


class StairsAction(Action):
    """Steps to go up, or down where negative."""

    steps: int = Field(..., ge=-3, le=3, description="How far to go")


class StairsObservation(Observation):
    """Where the climber stands."""

    height: int = 0
    visited: List[int] = Field(default_factory=list)  # noqa: UP006
    notes: Dict[str, Any] = Field(default_factory=dict)  # noqa: UP006


class StairsState(State):
    """The episode so far."""

    goal: int = 5
