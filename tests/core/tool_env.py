"""An environment with tools: a notebook that remembers, and tools that misbehave."""

import asyncio
import time
from typing import Any

from fastmcp import Context, FastMCP

from openenv.core import Action, Observation, State
from openenv.core.env_server.mcp_environment import MCPEnvironment


class Clear(Action):
    """An action that is no tool."""


class NotebookEnvironment(MCPEnvironment):
    """Notes are written and read by tools."""

    def __init__(self) -> None:
        mcp: FastMCP = FastMCP("notebook")
        self.notes: list[str] = []

        @mcp.tool
        def write(text: str) -> int:
            """Write a note; returns how many there are."""
            self.notes.append(text)
            return len(self.notes)

        @mcp.tool
        async def count_calls(context: Context) -> int:
            """How often this was called in the MCP session."""
            calls = (await context.get_state("calls") or 0) + 1
            await context.set_state("calls", calls)
            return calls

        @mcp.tool
        def fail() -> None:
            """Always fails."""
            raise ValueError("no ink")

        @mcp.tool
        def leak() -> str:
            """Fails with a path of the server in its words."""
            raise ValueError("nothing at /srv/secret/notes")

        @mcp.tool
        async def wait(seconds: float) -> str:
            """Takes its time."""
            await asyncio.sleep(seconds)
            return "waited"

        @mcp.tool
        def hang() -> None:
            """Blocks for longer than any limit of the tests."""
            time.sleep(20)

        super().__init__(mcp)

        @self.tool(mode="production")
        def publish() -> str:
            """Only in production."""
            return "published"

        @self.tool(mode="simulation")
        def rehearse() -> str:
            """Only in simulation."""
            return "rehearsed"

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Observation:
        self.notes.clear()
        return Observation()

    def _step_impl(self, action: Action, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        self.notes.clear()
        return Observation(metadata={"did": type(action).__name__})

    @property
    def state(self) -> State:
        return State(step_count=len(self.notes))
