"""Notes whose tools are functions of a FastMCP server, and whose episode ends with a submission."""

from typing import Any, Optional
from uuid import uuid4

from fastmcp import FastMCP

from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.types import Action, Observation, State


class NotesEnvironment(MCPEnvironment):
    """Write the word `done`, then submit."""

    def __init__(self):
        mcp = FastMCP("notes_env")
        self._notes: list[str] = []
        self._submitted = False

        @mcp.tool
        def write_note(text: str) -> dict:
            """Write a note."""
            self._notes.append(text)
            return {"count": len(self._notes), "text": text}

        @mcp.tool
        def submit() -> str:
            """End the episode."""
            self._submitted = True
            return "submitted"

        super().__init__(mcp)
        self._state = State(episode_id=str(uuid4()), step_count=0)

    def reset(self, seed: Optional[int] = None, episode_id: Optional[str] = None, **kwargs: Any) -> Observation:  # noqa: UP045
        self._notes, self._submitted = [], False
        self._state = State(episode_id=episode_id or str(uuid4()), step_count=0)
        if kwargs.get("key") == "":
            return Observation(done=True, reward=None, metadata={"status": "error", "error": "the key is empty"})
        return Observation(done=False, reward=0.0, metadata={"status": "ready"})

    def _step_impl(self, action: Action, timeout_s: Optional[float] = None, **kwargs: Any) -> Observation:  # noqa: UP045
        return Observation(done=False, reward=0.0, metadata={"error": f"unknown action {type(action).__name__}"})

    def step(self, action: Action, timeout_s: Optional[float] = None, **kwargs: Any) -> Observation:  # noqa: UP045
        self._state.step_count += 1
        return self._scored(super().step(action, timeout_s=timeout_s, **kwargs))

    async def step_async(self, action: Action, timeout_s: Optional[float] = None, **kwargs: Any) -> Observation:  # noqa: UP045
        self._state.step_count += 1
        return self._scored(await super().step_async(action, timeout_s=timeout_s, **kwargs))

    def _scored(self, observation: Observation) -> Observation:
        observation.done = self._submitted
        observation.reward = float("done" in self._notes) if self._submitted else 0.0
        return observation

    @property
    def state(self) -> State:
        return self._state
