"""An agent of PydanticAI, with the environment's functions as its tools."""

from pydantic_ai import Agent
from pydantic_ai.mcp import MCPToolset
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider


async def play(task):
    provider = OpenAIProvider(base_url=task.base_url, api_key=task.api_key)
    agent = Agent(OpenAIChatModel("policy", provider=provider), toolsets=[MCPToolset(task.mcp_url)])
    await agent.run(task.observation)
