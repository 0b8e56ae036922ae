"""What the endpoint adds to a call of the model, and to a rollout of 256 agents: `python -m benchmarks.agents`.

A call: OpenAI's client asks a model that answers at once, beside a bare route of Starlette that returns the same body.
A rollout: conversations of some calls with SmolLM2, by OpenAI's client in this process, beside asking the generator
directly. What the client itself takes for a call counts for the endpoint; that it is made, 35 ms each, does not.
"""

import argparse
import asyncio
import random
import statistics
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import openai
from rich.console import Console
from rich.table import Table
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from benchmarks.report import machine
from openenv.agents.endpoint.requests import ModelAnswer, ModelReply, ModelRequest
from openenv.agents.endpoint.server import Endpoint
from openenv.agents.endpoint.server_thread import ServerThread
from openenv.policies.conversations import ReplyRequest
from openenv.rl.agents.model import AgentModels, CapturedModel, TokenLimits
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import Chat
from openenv.rl.models.language_model import load_model

CALL_MS, ROLLOUT = 1.0, 1.1
"""Floors: milliseconds that the endpoint adds to a call, and its rollout's time over that without it."""
_ROUNDS = 5
LIMITS = TokenLimits(1000, 16)


class AtOnce:
    """A model that answers at once."""

    async def answer(self, request: ModelRequest) -> ModelAnswer:
        return ModelAnswer((ModelReply("hello", num_tokens=3),), num_prompt_tokens=7)


def client_of(base_url: str, key: str) -> openai.AsyncOpenAI:
    return openai.AsyncOpenAI(base_url=base_url, api_key=key, max_retries=0, timeout=3600)


async def ask(client: openai.AsyncOpenAI, messages: list[Any]) -> str:
    answer = await client.chat.completions.create(model="any", messages=messages)
    return answer.choices[0].message.content or ""


async def call_ms(client: openai.AsyncOpenAI, number: int) -> float:
    """Milliseconds of a call, one after another."""
    messages = [{"role": "user", "content": "hi"}]
    began = time.perf_counter()
    for _ in range(number):
        await ask(client, messages)
    return (time.perf_counter() - began) / number * 1000


async def calls(number: int) -> tuple[float, float]:
    """The medians of a call of the endpoint, and of the bare route."""
    async with Endpoint() as endpoint:
        key = endpoint.open(AtOnce())
        async with client_of(f"{endpoint.base_url}/v1", key) as client:
            raw = await client.chat.completions.with_raw_response.create(
                model="any", messages=[{"role": "user", "content": "hi"}]
            )
            body = raw.content

            async def answer(request: Request) -> Response:
                await request.body()
                return Response(body, media_type="application/json")

            server = ServerThread("the bare route")
            application = Starlette(routes=[Route("/v1/chat/completions", answer, methods=["POST"])])
            port = await asyncio.to_thread(
                server.start, application, "127.0.0.1", 0, 30.0, lifespan="off", access_log=False
            )
            async with client_of(f"http://127.0.0.1:{port}/v1", key) as bare:
                rounds = [(await call_ms(client, number), await call_ms(bare, number)) for _ in range(_ROUNDS)]
            await asyncio.to_thread(server.stop)
    ours, theirs = zip(*rounds, strict=True)
    return statistics.median(ours), statistics.median(theirs)


Talk = Callable[[int], Awaitable[int]]
"""Plays the conversation of a number, and returns how many tokens were sampled in it."""


async def tokens_s(talk: Talk, agents: int) -> float:
    """Tokens sampled in a second, by as many conversations at once."""
    began = time.perf_counter()
    sampled = await asyncio.gather(*map(talk, range(agents)))
    return sum(sampled) / (time.perf_counter() - began)


def question(number: int, turn: int) -> dict[str, str]:
    return {"role": "user", "content": f"Question {turn} of agent {number}: what do you see, and what will you do?"}


async def rollouts(path: str, agents: int, turns: int) -> tuple[float, float]:
    """Tokens a second through the endpoint, and of the generator alone, on equal conversations."""
    model, tokenizer = load_model(path)
    generator = Generator(model, Chat(tokenizer), max_new_tokens=LIMITS.reply, precision="bfloat16")
    chat = generator.chat

    with ThreadPoolExecutor(1) as executor:
        async with generator.replies(chat, executor) as replies, Endpoint() as endpoint:
            models = AgentModels(chat, replies, LIMITS)
            playing: list[tuple[CapturedModel, openai.AsyncOpenAI, str]] = []

            async def by_endpoint(number: int) -> int:
                captured, client, key = playing[number]
                messages = list[Any]()
                for turn in range(turns):
                    messages.append(question(number, turn))
                    messages.append({"role": "assistant", "content": await ask(client, messages)})
                await client.close()
                endpoint.close(key)
                return captured.capture.ledger()["tokens trained"]

            async def alone(number: int) -> int:
                messages, sampled, stream = list[Any](), 0, random.Random(number)
                for turn in range(turns):
                    messages.append(question(number, turn))
                    asked = ReplyRequest(number, messages, token_ids=chat.prompt(messages))
                    segment = await replies.answer(asked, stream)
                    messages.append({"role": "assistant", "content": chat.text(segment.sampled_ids)})
                    sampled += len(segment.sampled_ids)
                return sampled

            await tokens_s(alone, 8)  # what the first batch alone takes
            Console(stderr=True).print("two rounds of each, a minute or more")
            rounds = list[tuple[float, float]]()
            for _ in range(2):
                playing.clear()
                for number in range(agents):
                    captured = CapturedModel(models, number, number)
                    key = endpoint.open(captured)
                    playing.append((captured, client_of(f"{endpoint.base_url}/v1", key), key))
                rounds.append((await tokens_s(by_endpoint, agents), await tokens_s(alone, agents)))
    ours, theirs = zip(*rounds, strict=True)
    return statistics.median(ours), statistics.median(theirs)


def main() -> None:
    """Measure both, print a table, and exit with code 1 if a floor is missed."""
    parser = argparse.ArgumentParser(prog="python -m benchmarks.agents", description=__doc__)
    parser.add_argument("--model", default="models/smollm2-135m", help="Its folder (default %(default)s).")
    parser.add_argument("--agents", type=int, default=256, help="At once (default %(default)s).")
    parser.add_argument("--turns", type=int, default=1, help="Calls of a conversation (default %(default)s).")
    parser.add_argument("--calls", type=int, default=500, help="Of a model that answers at once (default %(default)s).")
    args = parser.parse_args()
    ours, bare = asyncio.run(calls(args.calls))
    through, alone = asyncio.run(rollouts(args.model, args.agents, args.turns))
    console = Console(width=110, emoji=False)
    console.print(machine())
    table = Table("", "endpoint", "without", "it adds", "floor")
    table.add_row("a call (ms)", f"{ours:.2f}", f"{bare:.2f}", f"{ours - bare:.2f}", f"{CALL_MS:.2f}")
    table.add_row(
        f"{args.agents} agents at once (tokens/s)", f"{through:.0f}", f"{alone:.0f}", f"{alone / through - 1:.1%}",
        f"{ROLLOUT - 1:.0%}",
    )  # fmt: skip
    console.print(table)
    if ours - bare > CALL_MS or alone / through > ROLLOUT:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
