# /// script
# dependencies = ["google-adk", "litellm", "mcp<2"]
# ///
"""An agent of Google's ADK through LiteLLM, with the environment's functions as its tools."""

import asyncio
import os

from google.adk.agents import LlmAgent
from google.adk.models.lite_llm import LiteLlm
from google.adk.runners import InMemoryRunner
from google.adk.tools.mcp_tool.mcp_session_manager import StreamableHTTPConnectionParams
from google.adk.tools.mcp_tool.mcp_toolset import McpToolset


async def main():
    tools = McpToolset(connection_params=StreamableHTTPConnectionParams(url=os.environ["OPENENV_MCP_URL"]))
    service = {"api_base": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"]}
    agent = LlmAgent(name="player", model=LiteLlm(model="openai/policy", **service), tools=[tools])
    await InMemoryRunner(agent=agent, app_name="agents").run_debug(os.environ["OPENENV_OBSERVATION"])
    await tools.close()


asyncio.run(main())
