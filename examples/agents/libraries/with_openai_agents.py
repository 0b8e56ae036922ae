# /// script
# dependencies = ["openai-agents"]
# ///
"""An agent of the OpenAI Agents SDK, by the Responses API as a stream, with the environment's functions."""

import asyncio
import os

from agents.mcp import MCPServerStreamableHttp

from agents import Agent, Runner, set_tracing_disabled


async def main():
    set_tracing_disabled(True)  # it would send each run to OpenAI
    async with MCPServerStreamableHttp(params={"url": os.environ["OPENENV_MCP_URL"]}) as server:
        agent = Agent(name="player", model="policy", mcp_servers=[server])
        result = Runner.run_streamed(agent, os.environ["OPENENV_OBSERVATION"])
        async for _ in result.stream_events():
            pass


asyncio.run(main())
