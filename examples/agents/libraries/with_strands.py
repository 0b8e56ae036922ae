# /// script
# dependencies = ["mcp<2", "strands-agents[openai]"]
# ///
"""An agent of Strands, with the environment's functions as its tools."""

import os

from mcp.client.streamable_http import streamablehttp_client
from strands import Agent
from strands.models.openai import OpenAIModel
from strands.tools.mcp import MCPClient

service = {"base_url": os.environ["OPENAI_BASE_URL"], "api_key": os.environ["OPENAI_API_KEY"]}
with MCPClient(lambda: streamablehttp_client(os.environ["OPENENV_MCP_URL"])) as server:
    agent = Agent(model=OpenAIModel(client_args=service, model_id="policy"), tools=server.list_tools_sync())
    agent(os.environ["OPENENV_OBSERVATION"])
