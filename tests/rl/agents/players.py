"""Agents as others write them: with the clients of OpenAI and of MCP alone."""

import asyncio
import json
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import anthropic
import mcp
import openai
from mcp.client.streamable_http import streamable_http_client

from openenv.rl.agents.program import AgentTask


async def one_turn(task: AgentTask) -> None:
    """Shows the model what the environment shows, and passes its reply on."""
    async with (
        openai.AsyncOpenAI(base_url=task.base_url, api_key=task.api_key) as client,
        tools(task.mcp_url) as session,
    ):
        seen = task.observation
        while "The episode has ended" not in seen:
            answer = await client.chat.completions.create(
                model="any", temperature=0.3, messages=[{"role": "user", "content": seen}]
            )
            seen = await called(session, "reply", {"reply": answer.choices[0].message.content})


async def asks_on(task: AgentTask) -> None:
    """Plays as above, and then asks the model once more."""
    await one_turn(task)
    async with openai.AsyncOpenAI(base_url=task.base_url, api_key=task.api_key) as client:
        await client.chat.completions.create(model="any", messages=[{"role": "user", "content": task.observation}])


async def works(task: AgentTask) -> None:
    """Asks the model once, and then does the task of examples/harbor/sum-column by its functions."""
    async with (
        openai.AsyncOpenAI(base_url=task.base_url, api_key=task.api_key) as client,
        tools(task.mcp_url) as session,
    ):
        await client.chat.completions.create(model="any", messages=[{"role": "user", "content": task.observation}])
        listed = await session.list_tools()
        assert {tool.name for tool in listed.tools} == {"run_command", "read_file", "write_file", "submit"}
        assert "nails" in await called(session, "run_command", {"command": "cat prices.csv"})
        await called(session, "write_file", {"path": "total.txt", "content": "48.60\n"})
        await called(session, "submit", {})


async def talker(task: AgentTask) -> None:
    """Keeps the whole conversation, and asks through Anthropic's API, from a stream."""
    async with anthropic.AsyncAnthropic(base_url=task.base_url.removesuffix("/v1"), api_key=task.api_key) as client:
        messages: list[Any] = [{"role": "user", "content": task.observation}]
        async with tools(task.mcp_url) as session:
            while True:
                async with client.messages.stream(
                    model="any", max_tokens=16, system=task.instructions, messages=messages
                ) as stream:
                    written = "".join(block.text for block in (await stream.get_final_message()).content)
                seen = await called(session, "reply", {"reply": written})
                if "The episode has ended" in seen:
                    return
                messages += [{"role": "assistant", "content": written}, {"role": "user", "content": seen}]


def is_first_run() -> bool:
    """Whether no program has run yet: the first run, of random play, ends as it should."""
    marker = Path(os.environ["MARKER"])
    is_first = not marker.exists()
    marker.touch()
    return is_first


def crashes(task: AgentTask) -> None:
    """Asks once, and fails."""
    if is_first_run():
        return
    with openai.OpenAI(base_url=task.base_url, api_key=task.api_key) as client:
        client.chat.completions.create(model="any", messages=[{"role": "user", "content": task.observation}])
    raise RuntimeError("a fault of the agent")


async def leaves(task: AgentTask) -> None:
    """Ends before the episode."""


async def sleeps(task: AgentTask) -> None:
    """Does not end."""
    await asyncio.sleep(3600)


async def times_out(task: AgentTask) -> None:
    """Fails with the error of a limit of its own."""
    if is_first_run():
        return
    raise TimeoutError("a limit of the agent")


async def asks_forever(task: AgentTask) -> None:
    """Has a call open at any time."""
    async with openai.AsyncOpenAI(base_url=task.base_url, api_key=task.api_key, max_retries=0) as client:
        while True:
            await client.chat.completions.create(model="any", messages=[{"role": "user", "content": task.observation}])


async def never_waits(task: AgentTask) -> None:
    """Gives calls up: before they have been read, before their answer, and after it."""
    for number in range(20):
        await hang_up(task, [{"role": "user", "content": task.observation}], number / 1000)


async def hang_up(task: AgentTask, messages: list[Any], after_s: float) -> None:
    """Make a call, and cut its connection."""
    url = urlsplit(task.base_url)
    _, writer = await asyncio.open_connection(url.hostname, url.port)
    body = json.dumps({"model": "any", "messages": messages}).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nHost: {url.netloc}\r\nAuthorization: Bearer {task.api_key}\r\n"
    writer.write(f"{head}Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n".encode() + body)
    await writer.drain()
    await asyncio.sleep(after_s)
    writer.close()
    await writer.wait_closed()


@asynccontextmanager
async def tools(url: str) -> AsyncIterator[mcp.ClientSession]:
    """A session of MCP's own client."""
    async with streamable_http_client(url) as (reading, writing, _), mcp.ClientSession(reading, writing) as session:
        await session.initialize()
        yield session


async def called(session: mcp.ClientSession, name: str, arguments: dict[str, Any]) -> str:
    """What a function returns."""
    result = await session.call_tool(name, arguments)
    return result.content[0].text  # type: ignore[union-attr]


async def main() -> None:
    """The same as a program of its own."""
    url, environment = os.environ["OPENAI_BASE_URL"], os.environ
    await one_turn(
        AgentTask(
            environment["OPENENV_INSTRUCTIONS"], environment["OPENENV_OBSERVATION"], url,
            environment["OPENAI_API_KEY"], environment["OPENENV_MCP_URL"], {},
        )
    )  # fmt: skip
    print(json.dumps({"ended": True}))


if __name__ == "__main__":
    asyncio.run(main())
