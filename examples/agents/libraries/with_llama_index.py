# /// script
# dependencies = ["llama-index-core", "llama-index-llms-openai-like", "llama-index-tools-mcp"]
# ///
"""An agent of LlamaIndex, with the environment's functions as its tools."""

import asyncio
import os

from llama_index.core.agent.workflow import FunctionAgent
from llama_index.llms.openai_like import OpenAILike
from llama_index.tools.mcp import BasicMCPClient, McpToolSpec


async def main():
    tools = await McpToolSpec(BasicMCPClient(os.environ["OPENENV_MCP_URL"])).to_tool_list_async()
    model = OpenAILike(
        model="policy",
        api_base=os.environ["OPENAI_BASE_URL"],
        api_key=os.environ["OPENAI_API_KEY"],
        is_chat_model=True,
        is_function_calling_model=True,
    )
    await FunctionAgent(tools=tools, llm=model).run(os.environ["OPENENV_OBSERVATION"])


asyncio.run(main())
