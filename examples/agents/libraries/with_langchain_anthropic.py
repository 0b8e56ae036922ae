# /// script
# dependencies = ["langchain", "langchain-anthropic", "langchain-mcp-adapters"]
# ///
"""An agent of LangChain with Anthropic's API, as a stream, and the environment's functions as its tools."""

import asyncio
import os

from langchain.agents import create_agent
from langchain_anthropic import ChatAnthropic
from langchain_mcp_adapters.client import MultiServerMCPClient


async def main():
    server = {"url": os.environ["OPENENV_MCP_URL"], "transport": "streamable_http"}
    tools = await MultiServerMCPClient({"environment": server}).get_tools()
    agent = create_agent(ChatAnthropic(model="policy", streaming=True), tools)
    await agent.ainvoke({"messages": [("user", os.environ["OPENENV_OBSERVATION"])]})


asyncio.run(main())
