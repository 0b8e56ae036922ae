"""The tools that `echo.txt` speaks of, as their author writes them for either package: `python mcp_echo.py PORT`."""

import sys
from uuid import uuid4

import uvicorn
from fastmcp import FastMCP

from openenv.core.env_server.http_server import create_app
from openenv.core.env_server.mcp_environment import MCPEnvironment
from openenv.core.env_server.mcp_types import CallToolAction, CallToolObservation
from openenv.core.env_server.types import ConcurrencyConfig, Observation, State


class EchoEnvironment(MCPEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        mcp = FastMCP("echo")

        @mcp.tool
        def echo_message(message: str) -> str:
            """Echo back the provided message.

            Args:
                message: The message to echo back
            """
            return message

        @mcp.tool
        def echo_with_length(message: str) -> dict:
            """Echo back the message with its length.

            Args:
                message: The message to echo back
            """
            return {"message": message, "length": len(message)}

        super().__init__(mcp)
        self._state = State(episode_id=str(uuid4()))

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._state = State(episode_id=episode_id or str(uuid4()))
        return Observation(reward=0.0, metadata={"status": "ready", "message": "Echo environment ready!"})

    def _step_impl(self, action, timeout_s=None, **kwargs):
        return Observation(metadata={"error": f"unknown action {type(action).__name__}"})

    async def step_async(self, action, timeout_s=None, **kwargs):
        self._state.step_count += 1
        return await super().step_async(action, timeout_s=timeout_s, **kwargs)

    @property
    def state(self):
        return self._state


if __name__ == "__main__":
    app = create_app(
        EchoEnvironment, CallToolAction, CallToolObservation, env_name="echo_env",
        concurrency_config=ConcurrencyConfig(max_concurrent_envs=4),
    )  # fmt: skip
    uvicorn.run(app, port=int(sys.argv[1]), log_level="error")
