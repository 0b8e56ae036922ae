"""`openenv eval --policy llm:MODEL@URL`: a model behind an OpenAI-compatible endpoint, with texts and with calls."""

import asyncio
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI

from openenv.auto.environment import named_environment
from openenv.envs.guess_env.models import WORDS
from openenv.evaluation import evaluate
from openenv.evaluation.intervals import Summary
from openenv.policies import ChatEndpoint, CompletionFailed, LanguageModelPolicy
from openenv.policies.conversations import ReplyRules
from tests.chat_server import ChatService, call
from tests.cli.commands import run
from tests.integrations_table import Record

pytestmark = pytest.mark.process

Serving = Callable[[FastAPI], str]
TOOL = "language models"
PARCELS = str(Path(__file__).parent.parent / "acceptance" / "games" / "parcels.py") + ":ParcelEnvironment"


def evaluated(tmp_path: Path, environment: str, url: str, *options: str) -> dict[str, Any]:
    """The row of a model that plays through the command line."""
    command = ["eval", environment, "--policy", f"llm:tiny@{url}/v1", "--episodes", "4", "--json", *options]
    done = run(*command, cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)
    return row


def shown(row: dict[str, Any]) -> str:
    return f"{row['num_replies']} replies, return {row['mean_return']:.2f}"


@pytest.mark.integration(TOOL, "openenv eval on blackjack, replies as text")
def test_a_text_environment_is_played_by_replies(serving: Serving, tmp_path: Path, record_property: Record) -> None:
    service = ChatService(lambda body: "stand")
    row = evaluated(tmp_path, "openspiel", serving(service.app()), "--game", "blackjack")

    record_property("figure", shown(row))
    assert "tools" not in service.bodies[0]
    assert [message["role"] for message in service.bodies[0]["messages"]] == ["system", "user"]
    assert (row["num_episodes"], row["num_unparseable"], row["mean_steps"]) == (4, 0, 1.0)
    counts = row["num_replies"], row["prompt_tokens"], row["completion_tokens"]
    assert counts == (4, 4 * ChatService.PROMPT_TOKENS, 4 * ChatService.COMPLETION_TOKENS)


def south_and_east(body: dict[str, Any]) -> str:
    """South and east by turns."""
    return ("south", "east")[len(body["messages"]) // 2 % 2]


@pytest.mark.integration(TOOL, "openenv eval on guess and on grid_world, one turn and several")
def test_an_episode_of_several_turns_is_one_conversation(
    serving: Serving, tmp_path: Path, record_property: Record
) -> None:
    right = ChatService(lambda body: str(WORDS.index(body["messages"][-1]["content"])))
    several = ChatService(south_and_east)
    guessed = evaluated(tmp_path, "guess", serving(right.app()))
    walked = evaluated(tmp_path, "grid_world", serving(several.app()), "--max-steps", "5")

    record_property("figure", f"{shown(guessed)}; {shown(walked)}")
    assert (guessed["win_rate"], guessed["num_replies"]) == (1.0, 4)
    roles = [message["role"] for message in max((body["messages"] for body in several.bodies), key=len)]
    assert roles == ["system", "user", *["assistant", "user"] * (len(roles) // 2 - 1)]
    assert len(roles) >= 6
    assert walked["num_unparseable_replies"] == 0


def test_the_history_that_a_model_was_trained_with_is_an_option(serving: Serving, tmp_path: Path) -> None:
    service = ChatService(lambda body: "south")
    evaluated(tmp_path, "grid_world", serving(service.app()), "--max-steps", "3", "--history", "latest")

    assert len(service.bodies) == 12
    roles = [[message["role"] for message in body["messages"]] for body in service.bodies]
    assert all(shown == ["system", "user"] for shown in roles), roles


class Caller:
    """Calls one of the tools that a request offers, and keeps what came back."""

    def __init__(self, name: str, arguments: dict[str, Any]) -> None:
        self.name, self.arguments = name, arguments
        self.results: list[str] = []

    def __call__(self, body: dict[str, Any]) -> dict[str, Any]:
        names = {tool["function"]["name"] for tool in body["tools"]}
        assert self.name in names, names
        last = body["messages"][-1]
        if last["role"] == "tool":
            assert last["tool_call_id"] == body["messages"][-2]["tool_calls"][0]["id"]
            self.results.append(last["content"])
            return call("finish", {}, f"call_{len(body['messages'])}")
        return call(self.name, self.arguments, f"call_{len(body['messages'])}")


@pytest.mark.integration(TOOL, "openenv eval on calendar, MCP tools as tool calls")
def test_mcp_tools_are_called_and_their_results_come_back_as_tool_messages(
    serving: Serving, tmp_path: Path, record_property: Record
) -> None:
    caller = Caller("list_people", {})
    service = ChatService(caller)
    row = evaluated(tmp_path, "calendar", serving(service.app()))

    record_property("figure", shown(row))
    assert len(caller.results) == 4
    assert all("name" in result for result in caller.results)
    assert "<tool_call>" not in service.bodies[0]["messages"][0]["content"], "the request has the form of a call"
    assert (row["num_replies"], row["num_unparseable_replies"], row["mean_steps"]) == (8, 0, 2.0)


@pytest.mark.integration(TOOL, "openenv eval on an action of several fields as one function")
def test_an_action_of_several_fields_is_one_function(serving: Serving, tmp_path: Path, record_property: Record) -> None:
    described = named_environment(PARCELS)
    with described.served() as served, served.client() as client:
        (function,) = served.text.functions(client.reset(seed=0).observation)
        reply, action = served.text.random_reply(client.reset(seed=0).observation, random.Random(0))
    service = ChatService(lambda body: call(body["tools"][0]["function"]["name"], json.loads(reply)))
    row = evaluated(tmp_path, PARCELS, serving(service.app()), "--max-steps", "3")

    record_property("figure", shown(row))
    assert set(function.input_schema["properties"]) == set(type(action).model_fields) - {"metadata"}
    assert row["num_unparseable_replies"] == 0
    assert row["mean_steps"] > 0


def test_without_tool_calls_the_tools_are_in_the_prompt_and_the_reply_is_read_as_text(
    serving: Serving, tmp_path: Path
) -> None:
    service = ChatService(lambda body: '<tool_call> {"name": "finish", "arguments": {}} </tool_call>')
    row = evaluated(tmp_path, "calendar", serving(service.app()), "--no-tool-calls")

    assert "tools" not in service.bodies[0]
    assert "<tool_call>" in service.bodies[0]["messages"][0]["content"]
    assert (row["num_unparseable"], row["mean_steps"]) == (0, 1.0)


async def played(url: str, environment: str, retries: int = 0, **options: Any) -> Summary:
    """The summary of a model that plays one episode."""
    with named_environment(environment).served() as served:
        endpoint = ChatEndpoint(f"{url}/v1", "tiny", **options)
        rules = ReplyRules(retries=retries)
        policy = LanguageModelPolicy("tiny", served.text, endpoint, calls_functions=True, rules=rules)
        (summary,) = await evaluate(served.base_url, served.client, [policy], 1, text=served.text)
    return summary


async def test_unreadable_arguments_and_unknown_tools_are_counted_and_shown_to_the_model(serving: Serving) -> None:
    replies = iter([call("finish", '{"answer": '), call("no_such_tool", {}), call("finish", {})])
    service = ChatService(lambda body: next(replies))
    summary = await played(serving(service.app()), "calendar", retries=2)

    assert (summary.num_replies, summary.num_unparseable_replies, summary.num_unparseable) == (3, 2, 0)
    shown_problem = service.bodies[2]["messages"][-1]
    assert (shown_problem["role"], "no_such_tool" in shown_problem["content"]) == ("tool", True)
    assert service.bodies[1]["messages"][-1]["role"] == "user", "what has no readable call gets no result of one"


@pytest.mark.parametrize("failure", [429, 500, 503])
async def test_a_busy_server_is_tried_again(serving: Serving, failure: int) -> None:
    service = ChatService(lambda body: "5", failures=[failure, failure])
    summary = await played(serving(service.app()), "guess")

    assert summary.num_invalid == 0
    assert len(service.bodies) == summary.num_replies + 2


async def test_a_refused_request_is_an_error_with_the_status_and_the_remedy(serving: Serving) -> None:
    service = ChatService(lambda body: "5", failures=[401])
    with pytest.raises(CompletionFailed, match=r"returned 401: give a valid api_key"):
        await played(serving(service.app()), "guess")


async def test_a_server_that_does_not_answer_in_time_is_an_error(serving: Serving) -> None:
    app = FastAPI()

    @app.post("/v1/chat/completions")
    async def never() -> None:
        await asyncio.Event().wait()

    with pytest.raises(CompletionFailed, match=r"did not respond within 0\.05 s"):
        await played(serving(app), "guess", timeout_s=0.05)


def test_the_key_of_the_named_variable_is_sent(
    serving: Serving, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = ChatService(lambda body: "stand")
    monkeypatch.setenv("OPENAI_API_KEY", "usual")
    monkeypatch.setenv("OTHER_KEY", "other")
    url = serving(service.app())
    evaluated(tmp_path, "openspiel", url, "--game", "blackjack")
    evaluated(tmp_path, "openspiel", url, "--game", "blackjack", "--api-key-env", "OTHER_KEY")

    assert service.headers[0]["authorization"] == "Bearer usual"
    assert service.headers[-1]["authorization"] == "Bearer other"


def test_the_table_has_replies_and_tokens(serving: Serving, tmp_path: Path) -> None:
    url = serving(ChatService(lambda body: "stand").app())
    done = run("eval", "openspiel", "--game", "blackjack", "--policy", f"llm:tiny@{url}/v1,random", cwd=tmp_path)

    assert "prompt tokens" in done.stdout
    assert "│ 350 │" in " ".join(done.stdout.split()), done.stdout
