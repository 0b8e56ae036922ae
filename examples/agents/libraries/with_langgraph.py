# /// script
# dependencies = ["langchain", "langchain-mcp-adapters", "langchain-openai", "langgraph"]
# ///
"""An agent of LangGraph, with the environment's functions as its tools."""

import asyncio
import os

from langchain.agents import create_agent
from langchain_mcp_adapters.client import MultiServerMCPClient
from langchain_openai import ChatOpenAI


async def main():
    server = {"url": os.environ["OPENENV_MCP_URL"], "transport": "streamable_http"}
    tools = await MultiServerMCPClient({"environment": server}).get_tools()
    agent = create_agent(ChatOpenAI(model="policy"), tools)
    await agent.ainvoke({"messages": [("user", os.environ["OPENENV_OBSERVATION"])]})


asyncio.run(main())
