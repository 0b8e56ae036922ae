"""An agent that knows nothing of openenv: OpenAI's client asks the model, MCP's client acts in the environment."""

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from openai import AsyncOpenAI


async def play(task):
    """Play one episode. The model is shown what the environment shows, and its reply is passed on."""
    model = AsyncOpenAI(base_url=task.base_url, api_key=task.api_key)
    connection = streamable_http_client(task.mcp_url)
    async with model, connection as (reading, writing, _), ClientSession(reading, writing) as tools:
        await tools.initialize()
        seen = task.observation
        while "The episode has ended" not in seen:
            answer = await model.chat.completions.create(model="policy", messages=[{"role": "user", "content": seen}])
            result = await tools.call_tool("reply", {"reply": answer.choices[0].message.content})
            seen = result.content[0].text
