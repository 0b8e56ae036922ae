"""Messages of the drill, from the package's own surface."""

from __future__ import annotations

from dataclasses import dataclass

from openenv.core.env_server import Action, Observation, State


@dataclass
class DrillAction(Action):
    """A program."""

    code: str


class DrillObservation(Observation):
    """What it printed."""

    stdout: str = ""
    stderr: str = ""
    exit_code: int = 0


class DrillState(State):
    """The episode so far."""

    last_exit_code: int = 0
