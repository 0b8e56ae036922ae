# /// script
# dependencies = ["autogen-agentchat", "autogen-ext[openai,mcp]", "mcp<2"]
# ///
"""An agent of AutoGen, with the environment's functions as its tools."""

import asyncio
import os

from autogen_agentchat.agents import AssistantAgent
from autogen_ext.models.openai import OpenAIChatCompletionClient
from autogen_ext.tools.mcp import StreamableHttpServerParams, mcp_server_tools

ABLE = {"vision": False, "function_calling": True, "json_output": False, "structured_output": False}


async def main():
    tools = await mcp_server_tools(StreamableHttpServerParams(url=os.environ["OPENENV_MCP_URL"]))
    model = OpenAIChatCompletionClient(model="policy", model_info={"family": "unknown", **ABLE})
    agent = AssistantAgent("player", model_client=model, tools=tools, max_tool_iterations=5)
    await agent.run(task=os.environ["OPENENV_OBSERVATION"])


asyncio.run(main())
