"""The table of docs/agents.md: what an agent does, by the API or the library that it is written with.

Each cell is a program that asks the trained model through the endpoint. Each of its tokens is kept, exactly as it was
sampled. `python -m tests.agents` prints the table.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Literal, NamedTuple

import anthropic
import numpy as np
import openai
import pydantic_ai
import pytest
import smolagents
from pydantic_ai.models.openai import OpenAIChatModel
from pydantic_ai.providers.openai import OpenAIProvider

from openenv.agents.endpoint.server import Endpoint
from openenv.formats.images import png_base64
from openenv.rl.agents.model import TokenLimits
from openenv.rl.algorithm.segment import Segment
from tests.agents.matrix import CELLS, cell
from tests.rl.agents.asking import SEES, WRITES_BYTES, Message, Player, player

LIMITS = TokenLimits(6000, 60)
QUESTION = "hit or stand?"
DEAL = {"type": "object", "properties": {"seat": {"enum": [1, 2]}}, "required": ["seat"]}
Ask = Callable[..., Awaitable[tuple[str, Message]]]
"""Asks for a reply to messages of Chat Completions. Returns its text and its message."""


class Asked(NamedTuple):
    """A client of one API, and the model that it asks."""

    ask: Ask
    player: Player

    def sequences(self) -> list[Segment]:
        """What is trained: all that was sampled, in sequences that the model finds as likely as recorded."""
        segments, capture = self.player.require_exact(), self.player.capture
        assert capture.invalid_because is None
        assert sum(len(one.sampled_ids) for one in segments) == capture.ledger()["tokens trained"] > 0
        return segments


@asynccontextmanager
async def opened(api: str, name: str = WRITES_BYTES) -> AsyncIterator[Asked]:
    async with Endpoint() as endpoint, player(name, limits=LIMITS) as asking:
        key = endpoint.open(asking.model)
        of_openai = openai.AsyncOpenAI(base_url=f"{endpoint.base_url}/v1", api_key=key, max_retries=0)
        of_anthropic = anthropic.AsyncAnthropic(base_url=endpoint.base_url, api_key=key, max_retries=0)
        async with of_openai, of_anthropic:
            asks: dict[str, Ask] = {
                "Chat Completions": lambda messages, **how: by_chat(of_openai, messages, **how),
                "Responses": lambda messages, **how: by_responses(of_openai, messages, **how),
                "Messages": lambda messages, **how: by_messages(of_anthropic, messages, **how),
            }
            yield Asked(asks[api], asking)


async def by_chat(client: Any, messages: list[Message], *, calls: bool = False, streams: bool = False) -> Any:
    function = {"name": "deal", "description": "deal a card", "parameters": DEAL}
    tools = {"tools": [{"type": "function", "function": function}], "tool_choice": "required"} if calls else {}
    if streams:
        stream = await client.chat.completions.create(model="any", messages=messages, stream=True)
        text = "".join([chunk.choices[0].delta.content or "" async for chunk in stream])
        return text, {"role": "assistant", "content": text}
    answer = await client.chat.completions.create(model="any", messages=messages, **tools)
    message = answer.choices[0].message
    return message.content, message.model_dump(exclude_none=True, include={"role", "content", "tool_calls"})


async def by_responses(client: Any, messages: list[Message], *, calls: bool = False, streams: bool = False) -> Any:
    function = {"type": "function", "name": "deal", "description": "deal a card", "parameters": DEAL, "strict": False}
    tools = {"tools": [function], "tool_choice": "required"} if calls else {}
    items: list[Message] = []
    for message in messages:
        for call in message.get("tool_calls", ()):
            items.append({"type": "function_call", "call_id": call["id"], **call["function"]})
        if message["role"] == "tool":
            output = {"call_id": message["tool_call_id"], "output": message["content"]}
            items.append({"type": "function_call_output", **output})
        elif message.get("content"):
            items.append({"role": message["role"], "content": as_input(message["content"])})
    if streams:
        stream = await client.responses.create(model="any", input=items, stream=True)
        *_, last = [event async for event in stream]
        answer = last.response
    else:
        answer = await client.responses.create(model="any", input=items, **tools)
    written = [one for one in answer.output if one.type == "function_call"]
    called = [{"id": one.call_id, "function": {"name": one.name, "arguments": one.arguments}} for one in written]
    return answer.output_text, {"role": "assistant", "content": answer.output_text, "tool_calls": called}


async def by_messages(client: Any, messages: list[Message], *, calls: bool = False, streams: bool = False) -> Any:
    function = {"name": "deal", "description": "deal a card", "input_schema": DEAL}
    options: Message = {"tools": [function], "tool_choice": {"type": "any"}} if calls else {}
    if messages[0]["role"] == "system":
        options["system"], messages = messages[0]["content"], messages[1:]
    shown = []
    for message in messages:
        parts = as_blocks(message.get("content"))
        if message["role"] == "tool":
            parts = [{"type": "tool_result", "tool_use_id": message["tool_call_id"], "content": message["content"]}]
        for call in message.get("tool_calls", ()):
            function = call["function"]
            use = {"id": call["id"], "name": function["name"], "input": json.loads(function["arguments"])}
            parts.append({"type": "tool_use", **use})
        role = "assistant" if message["role"] == "assistant" else "user"
        shown.append({"role": role, "content": parts})
    asked = {"model": "any", "max_tokens": 60, "messages": shown, **options}
    if streams:
        async with client.messages.stream(**asked) as stream:
            answer = await stream.get_final_message()
    else:
        answer = await client.messages.create(**asked)
    text = "".join(part.text for part in answer.content if part.type == "text")
    used = [part for part in answer.content if part.type == "tool_use"]
    called = [{"id": one.id, "function": {"name": one.name, "arguments": json.dumps(one.input)}} for one in used]
    return text, {"role": "assistant", "content": text, "tool_calls": called}


def as_input(content: Any) -> Any:
    """A content of Chat Completions as Responses have it."""
    if isinstance(content, str):
        return content
    return [{"type": "input_image", "image_url": part["image_url"]["url"], "detail": "auto"} for part in content]


def as_blocks(content: Any) -> list[Message]:
    """The same as Messages have it."""
    if not content or isinstance(content, str):
        return [{"type": "text", "text": content}] if content else []
    data = [part["image_url"]["url"].partition(",")[2] for part in content]
    return [{"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": one}} for one in data]


def picture(shade: int) -> list[Message]:
    """A content of Chat Completions that is a picture."""
    url = f"data:image/png;base64,{png_base64(np.full((50, 50, 3), shade, np.uint8))}"
    return [{"type": "image_url", "image_url": {"url": url}}]


async def talk(asked: Asked, questions: Sequence[Any], start: tuple[Message, ...] = (), **how: Any) -> list[Message]:
    """A conversation that grows."""
    messages = list(start)
    for question in questions:
        messages.append({"role": "user", "content": question})
        _, reply = await asked.ask(messages, **how)
        messages.append(reply)
    return messages


APIS = ["Chat Completions", "Responses", "Messages"]


@cell("token-exact", APIS)
async def test_a_conversation_that_grows_is_one_sequence(api: str) -> None:
    async with opened(api, "Qwen3") as asked:  # whose template drops the thinking of earlier turns
        await talk(asked, [QUESTION, "once", "again"])

        (segment,) = asked.sequences()
        assert len(segment.replies) == 3


@cell("streaming", APIS)
async def test_a_streamed_conversation_is_one_sequence(api: str) -> None:
    async with opened(api) as asked:
        await talk(asked, [QUESTION, "once"], streams=True)

        (segment,) = asked.sequences()
        assert len(segment.replies) == 2


@cell("tools", APIS)
async def test_calls_and_their_results_are_one_sequence(api: str) -> None:
    async with opened(api) as asked:
        messages: list[Message] = [{"role": "user", "content": QUESTION}]
        for number in range(3):
            _, reply = await asked.ask(messages, calls=True)
            (call,) = reply["tool_calls"]
            assert json.loads(call["function"]["arguments"])["seat"] in (1, 2)
            messages += [reply, {"role": "tool", "tool_call_id": call["id"], "content": f"card {number}"}]

        (segment,) = asked.sequences()
        assert len(segment.replies) == 3


@cell("sub-agents", APIS)
async def test_a_sub_agent_has_a_sequence_of_its_own(api: str) -> None:
    async with opened(api) as asked:
        messages = await talk(asked, [QUESTION], ({"role": "system", "content": "You play."},))
        await talk(asked, ["count", "once"], ({"role": "system", "content": "You count."},))
        await talk(asked, ["go on"], tuple(messages))

        assert sorted(len(one.replies) for one in asked.sequences()) == [2, 2]


@cell("compaction", APIS)
async def test_a_compacted_history_begins_another_sequence(api: str) -> None:
    async with opened(api) as asked:
        await talk(asked, [QUESTION, "once"])
        await talk(asked, ["in short: a ten is shown", "go on"])

        assert [len(one.replies) for one in asked.sequences()] == [2, 2]


@cell("parallel calls", APIS)
async def test_calls_at_the_same_time_share_their_beginning(api: str) -> None:
    async with opened(api) as asked:
        start = tuple(await talk(asked, [QUESTION]))
        await asyncio.gather(*(talk(asked, [word], start) for word in ("red", "green", "blue")))

        assert sorted(len(one.replies) for one in asked.sequences()) == [1, 1, 2]


@cell("vision", APIS)
async def test_pictures_of_a_conversation_reach_the_model(api: str) -> None:
    async with opened(api, SEES) as asked:
        await talk(asked, [picture(20), "again", picture(200)])

        (segment,) = asked.sequences()
        assert len(segment.replies) == 3
        assert len(set(segment.images)) == len(segment.images) == 2


@asynccontextmanager
async def served(answers_calls: bool = True) -> AsyncIterator[tuple[Player, str, str]]:
    """A model, with the address and the key for it."""
    async with (
        Endpoint() as endpoint,
        player(WRITES_BYTES, limits=LIMITS, must_call=answers_calls) as asking,
    ):
        yield asking, f"{endpoint.base_url}/v1", endpoint.open(asking.model)


def require_all_kept(asking: Player) -> list[Segment]:
    segments = asking.require_exact()
    assert asking.capture.invalid_because is None
    assert sum(len(one.sampled_ids) for one in segments) == asking.capture.ledger()["tokens trained"] > 0
    return segments


@cell("token-exact, tools", ["smolagents"])
async def test_an_agent_of_smolagents_is_kept(api: str) -> None:
    dealt = []

    @smolagents.tool
    def deal(seat: int) -> str:
        """Deal a card.

        Args:
            seat: whose card.
        """
        dealt.append(seat)
        return "a ten"

    def run(base_url: str, key: str) -> None:
        model = smolagents.OpenAIModel("any", api_base=base_url, api_key=key)
        smolagents.ToolCallingAgent([deal], model, max_steps=2, verbosity_level=0).run(QUESTION)

    async with served() as (asking, base_url, key):
        await asyncio.to_thread(run, base_url, key)

        assert require_all_kept(asking)


def dealer(base_url: str, key: str, dealt: list[int]) -> pydantic_ai.Agent[None, str]:
    model = OpenAIChatModel("any", provider=OpenAIProvider(base_url=base_url, api_key=key))
    agent = pydantic_ai.Agent(model)

    @agent.tool_plain
    def deal(seat: Literal[1, 2]) -> str:
        """Deal a card."""
        dealt.append(seat)
        return "a ten"

    return agent


@cell("token-exact, tools, streaming, sub-agents, parallel calls", ["PydanticAI"])
async def test_agents_of_pydantic_ai_are_kept(api: str) -> None:
    dealt: list[int] = []
    async with served() as (asking, base_url, key):
        limits = pydantic_ai.UsageLimits(request_limit=3)

        async def play(agent: pydantic_ai.Agent[None, str], question: str) -> None:
            with pytest.raises(pydantic_ai.UsageLimitExceeded):
                await agent.run(question, usage_limits=limits)

        agent, other = (dealer(base_url, key, dealt) for _ in range(2))
        await asyncio.gather(play(agent, QUESTION), play(other, "red or green?"))

        segments = require_all_kept(asking)
        assert sorted(len(one.replies) for one in segments) == [3, 3]  # each conversation grew
    async with served(answers_calls=False) as (asking, base_url, key):
        async with dealer(base_url, key, dealt).run_stream(QUESTION) as stream:
            written = await stream.get_output()

        (segment,) = require_all_kept(asking)
        assert written.strip() == asking.generator.chat.text(segment.sampled_ids)


def test_the_table_of_the_docs_has_these_cells() -> None:
    text = (Path(__file__).parents[3] / "docs" / "agents.md").read_text(encoding="utf-8")
    head, _, *rows = text[text.index("| agent | token-exact") :].partition("\n\n")[0].splitlines()
    _, *names = (cell.strip() for cell in head.strip("|").split("|"))
    shown = set()
    for row in rows:
        agent, *cells = (cell.strip() for cell in row.strip("|").split("|"))
        shown |= {(agent.partition(" (")[0], name) for name, cell in zip(names, cells, strict=True) if cell == "yes"}

    assert shown == CELLS
