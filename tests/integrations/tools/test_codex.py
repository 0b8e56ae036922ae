"""Codex, a coding agent's command line, plays an episode with the endpoint as its model, without a network."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from openenv.agents.endpoint.requests import CalledTool, ModelAnswer, ModelReply, ModelRequest
from openenv.agents.endpoint.server import Endpoint
from openenv.auto.environment import named_environment
from openenv.core.session_pool import SessionPool
from openenv.rl.agents.environment import EnvironmentEpisode
from openenv.rl.agents.kinds import Command
from openenv.rl.agents.program import run_program
from openenv.rl.config import ConversationConfig

ROOT = Path(__file__).parents[3]
CODEX = ROOT / ".codex/node_modules/.bin/codex"
AGENTS = ROOT / "examples/agents"


class ReadsFirst:
    """Reads the note, and opens the door that it names."""

    def __init__(self) -> None:
        self.requests: list[ModelRequest] = []

    def stop(self) -> None:
        """It holds nothing."""

    async def answer(self, request: ModelRequest) -> ModelAnswer:
        self.requests.append(request)
        results = [message["content"] for message in request.messages if message["role"] == "tool"]
        if not results:
            return called(request.tools, "read_note", {})
        if len(results) == 1:
            colour = next(word for word in ("red", "green", "blue", "white") if word in results[0])
            return called(request.tools, "open_door", {"colour": colour})
        return ModelAnswer((ModelReply("Done."),))


def called(tools: Sequence[object], name: str, arguments: dict[str, str]) -> ModelAnswer:
    """A call of the one function with that name, whatever stands before it."""
    (full,) = [tool["name"] for tool in tools if tool["name"].endswith(name)]  # type: ignore[index]
    call = CalledTool(f"call_{name}", full, json.dumps(arguments))
    return ModelAnswer((ModelReply("", tool_calls=(call,), end="tool_calls"),))


@pytest.mark.process
@pytest.mark.skipif(not CODEX.exists(), reason="no .codex: it needs npm")
@pytest.mark.integration("Codex", "a coding agent's command line plays with the endpoint as its model")
async def test_codex_plays_with_the_environments_functions(record_property, monkeypatch) -> None:
    monkeypatch.setenv("CODEX", str(CODEX))
    model = ReadsFirst()
    with named_environment(f"{AGENTS / 'doors.py'}:Doors").served() as served:
        async with SessionPool(served.client, served.base_url, 1) as pool, Endpoint() as endpoint:
            episode = EnvironmentEpisode(pool, 0, served.text, 3, ConversationConfig())
            await episode.begin({})
            await run_program(Command(["sh", str(AGENTS / "codex.sh")]), 120, endpoint, model, episode)

    assert (episode.trajectory.outcome, episode.trajectory.game_return) == ("won", 1.0), episode.trajectory.reason
    first, second, third = (request.messages for request in model.requests)
    assert second[: len(first)] == first
    assert third[: len(second)] == second
    record_property("figure", f"{len(model.requests)} calls, {len(model.requests[0].tools)} functions")
