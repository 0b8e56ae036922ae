"""Four doors, of which one opens: a note has its colour. Two functions, and the reward comes at the end."""

import random
from typing import Literal

from fastmcp import FastMCP

from openenv import Observation, State
from openenv.core.env_server.mcp_environment import MCPEnvironment

Colour = Literal["red", "green", "blue", "white"]


class Room(Observation):
    seen: str


class Doors(MCPEnvironment):
    """One of four doors opens. You may try one door."""

    success_return = 1.0

    def __init__(self):
        tools = FastMCP("doors")

        @tools.tool
        def read_note() -> str:
            """Read the note on the table."""
            self._has_read = True
            return f"The {self._right} door opens."

        @tools.tool
        def open_door(colour: Colour) -> str:
            """Try a door. The episode ends with it."""
            self._opened = colour if self._has_read else "none"
            return "It opens." if self._opened == self._right else "It is locked."

        super().__init__(tools)

    def reset(self, seed=None, episode_id=None, must_read=False, **kwargs):
        """must_read: whether all doors are locked until the note was read. Guessing then opens none."""
        self._has_read = not must_read
        self._right = random.Random(seed).choice(["red", "green", "blue", "white"])
        self._opened = None
        return Room(seen="Four doors. A note lies on the table.")

    def step(self, action, timeout_s=None, **kwargs):
        result = super().step(action, timeout_s, **kwargs)
        result.reward, result.done = float(self._opened == self._right), self._opened is not None
        return result

    @property
    def state(self):
        return State()
