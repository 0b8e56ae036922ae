"""An agent with OpenAI's client alone: it passes the environment's functions to its model, and calls what that asks."""

import json

from mcp import ClientSession
from mcp.client.streamable_http import streamable_http_client
from openai import AsyncOpenAI


async def play(task):
    model, connection = AsyncOpenAI(base_url=task.base_url, api_key=task.api_key), streamable_http_client(task.mcp_url)
    async with model, connection as (reading, writing, _), ClientSession(reading, writing) as session:
        await session.initialize()
        listed = (await session.list_tools()).tools
        functions = [
            {"name": one.name, "description": one.description, "parameters": one.inputSchema} for one in listed
        ]
        tools = [{"type": "function", "function": function} for function in functions]
        messages = [{"role": "user", "content": task.observation}]
        for _ in range(6):
            answer = await model.chat.completions.create(model="policy", messages=messages, tools=tools)
            message = answer.choices[0].message
            messages.append(message.model_dump(exclude_none=True))
            if not message.tool_calls:
                return
            for call in message.tool_calls:
                result = await session.call_tool(call.function.name, json.loads(call.function.arguments))
                messages.append({"role": "tool", "tool_call_id": call.id, "content": result.content[0].text})
