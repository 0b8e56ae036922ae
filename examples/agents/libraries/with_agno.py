# /// script
# dependencies = ["agno", "fastmcp>=4,<5", "mcp", "openai"]
# ///
"""An agent of Agno, with the environment's functions as its tools."""

import asyncio
import os

from agno.agent import Agent
from agno.models.openai.like import OpenAILike
from agno.tools.mcp import MCPTools


async def main():
    model = OpenAILike(id="policy", base_url=os.environ["OPENAI_BASE_URL"], api_key=os.environ["OPENAI_API_KEY"])
    async with MCPTools(transport="streamable-http", url=os.environ["OPENENV_MCP_URL"]) as tools:
        await Agent(model=model, tools=[tools], telemetry=False).arun(os.environ["OPENENV_OBSERVATION"])


asyncio.run(main())
