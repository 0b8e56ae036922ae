"""Episodes of eight calls in which connections are lost, programs end, and the generator dies."""

import os
import re
import signal
import sys
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import openai
import pytest

from openenv.agents.llm.http import LLMError
from openenv.auto.environment import named_environment
from openenv.core.session_pool import SessionPool
from openenv.rl.agents.episodes import AgentEpisodes, EpisodeSeeds
from openenv.rl.agents.kinds import Command
from openenv.rl.agents.program import AgentTask
from openenv.rl.config_file import config_from_mapping
from openenv.rl.generators.embedded import Generator
from openenv.rl.models.chat import Chat
from openenv.rl.waiting.waits import Place, Waits
from tests.rl.agents.asking import byte_model
from tests.rl.agents.counted import STEPS
from tests.rl.agents.players import hang_up

COUNTED = Path(__file__).with_name("counted.py")
KINDS = ("plays", "plays", "asks again", "gives up", "crashes", "leaves", "plays", "plays")
KILLED_EVERY = 25
SETTINGS: dict[str, Any] = {"max_req_tokens": 800, "max_res_tokens": 4, "agent": {"function": "m:f", "at_once": 32}}


def kind_of(seed: int) -> str:
    """What goes wrong in an episode."""
    return "killed" if seed % KILLED_EVERY == KILLED_EVERY - 1 else KINDS[seed % len(KINDS)]


async def stumbles(task: AgentTask) -> None:
    """A conversation that grows by eight replies; at the fifth, something goes wrong."""
    kind, seen = kind_of(int(task.observation.split()[-1].strip('"}'))), task.observation
    if kind == "killed":
        await Command([sys.executable, "-m", "tests.rl.agents.test_faults"])(task)
    messages: list[Any] = [{"role": "user", "content": seen}]
    async with (
        openai.AsyncOpenAI(base_url=task.base_url, api_key=task.api_key, max_retries=0, timeout=300) as client,
        httpx.AsyncClient() as tools,
    ):
        for number in range(STEPS):
            headers = {}
            if number == 4 and kind == "crashes":
                raise RuntimeError("a fault of the agent")
            if number == 4 and kind == "leaves":
                return
            if number == 4 and kind in ("asks again", "gives up"):
                await hang_up(task, messages, 0.01)
                headers = {"x-stainless-retry-count": "1"} if kind == "asks again" else {}
            answer = await client.chat.completions.create(model="any", messages=messages, extra_headers=headers)
            reply = answer.choices[0].message.content or ""
            seen = await called(tools, task.mcp_url, reply)
            messages += [{"role": "assistant", "content": reply}, {"role": "user", "content": seen}]


async def called(client: httpx.AsyncClient, url: str, reply: str) -> str:
    call = {"method": "tools/call", "params": {"name": "reply", "arguments": {"reply": reply}}}
    answer = await client.post(url, json={"jsonrpc": "2.0", "id": 1, **call})
    return str(answer.json()["result"]["content"][0]["text"])


@dataclass
class Mortal:
    """A real generator, which counts the tokens of its answers, and dies where a test wants."""

    generator: Generator
    left: int | None = None
    """Answers until it dies; None: it lives."""
    num_tokens: int = 0

    @asynccontextmanager
    async def replies(self, chat: Chat, executor: Any) -> AsyncIterator["Mortal"]:
        async with self.generator.replies(chat, executor) as self._replies:
            yield self

    async def answer(self, request: Any, stream: Any) -> Any:
        if self.left is not None:
            self.left -= 1
            if self.left < 0:
                raise LLMError("the generator is gone")
        segment = await self._replies.answer(request, stream)
        self.num_tokens += int(segment.sampled.sum())
        return segment


def given(log: Path) -> dict[int, float]:
    """The return that the environment gave in the newest episode of each seed."""
    returns: dict[int, float] = {}
    for seed, line in (line.split() for line in log.read_text().splitlines()):
        returns[int(seed)] = 0.0 if line == "begins" else returns[int(seed)] + float(line)
    return returns


@pytest.mark.process
@pytest.mark.timeout(900)
@pytest.mark.parametrize("num_episodes", [50, pytest.param(1000, marks=pytest.mark.slow)])
async def test_no_episode_has_a_reward_that_its_environment_did_not_give(
    num_episodes: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    log = tmp_path / "rewards"
    monkeypatch.setenv("COUNTED", str(log))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join(filter(None, [str(Path.cwd()), os.environ.get("PYTHONPATH")])))
    caplog.set_level("INFO", "openenv.rl.agents.episodes")
    model, tokenizer = byte_model()
    generator = Mortal(Generator(model, Chat(tokenizer), max_new_tokens=4, precision="float32"))
    with named_environment(f"{COUNTED}:Counted").served() as served, ThreadPoolExecutor(1) as executor:
        async with SessionPool(served.client, served.base_url, 32) as pool:
            episodes = AgentEpisodes(
                config=config_from_mapping(SETTINGS), agent=stumbles, text=served.text,
                chat=generator.generator.chat, generator=generator, executor=executor,
                place=Place(Waits()),
            )  # fmt: skip
            seeds = [EpisodeSeeds(number, number, number) for number in range(num_episodes)]
            generator.left = num_episodes
            with pytest.raises(LLMError, match="the generator is gone"):
                await episodes.play(pool, seeds, {})
            generator.left, generator.num_tokens = None, 0
            played = await episodes.play(pool, seeds, {})

    of_kind = {kind: [one for one in played if kind_of(one.seed) == kind] for kind in (*KINDS, "killed")}
    valid, returns, ledger = [one for one in played if one.valid], given(log), ledger_of(caplog.messages)
    assert {one.seed: one.game_return or 0.0 for one in valid} == {one.seed: returns[one.seed] for one in valid}
    whole = [one for one in (*of_kind["plays"], *of_kind["asks again"]) if one.outcome != "unparseable"]
    assert {len(one.turns) for one in whole} == {STEPS}
    assert {one.reason for one in of_kind["leaves"] if one.outcome != "unparseable"} == {
        "the program has ended before the episode"
    }
    assert not any(one.valid for one in (*of_kind["crashes"], *of_kind["killed"]))
    assert all(one.valid for one in (*of_kind["plays"], *of_kind["asks again"]))
    assert any("was lost: the program has not waited" in one.reason for one in of_kind["gives up"])

    crashed = (
        f"{len(of_kind['crashes'])} episodes are invalid: the agent has failed: RuntimeError: a fault of the agent"
    )
    assert crashed in caplog.text

    tokens = {name: count for name, count in ledger.items() if name.startswith("tokens")}
    assert ledger["tokens trained"] == sum(int(one.sampled.sum()) for each in valid for one in each.segments)
    assert ledger["tokens not trained: an invalid episode"] > 0
    lost = ledger.get("calls lost", 0) + ledger.get("calls lost, made again", 0)
    assert lost > 0
    assert 0 <= generator.num_tokens - sum(tokens.values()) <= 4 * lost  # what was sampled as its program left
    assert {name for name in ledger if name.startswith("calls")} <= {
        "calls answered", "calls answered, made again", "calls lost", "calls lost, made again",
    }  # fmt: skip


def ledger_of(lines: Sequence[str]) -> dict[str, int]:
    """The newest ledger that the log has."""
    line = next(line for line in reversed(lines) if "tokens trained" in line)
    entries = re.findall(r"(\d+) (\D+?)(?=, \d|$)", line.removeprefix("agents: "))
    return {name: int(count) for count, name in entries}


if __name__ == "__main__":
    os.kill(os.getpid(), signal.SIGKILL)
