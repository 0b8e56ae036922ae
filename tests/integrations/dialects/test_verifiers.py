"""Environments of verifiers as ours, and ours as environments of verifiers, whose own loop plays them."""

import asyncio
import json
import signal
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from random import Random
from typing import Any

import pytest
import verifiers
from fastapi import FastAPI

from openenv.auto.environment import named_environment
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.errors import EnvironmentFault
from openenv.dialects.tool_environment import ReplyAction
from openenv.dialects.verifiers_environment import load_verifiers
from openenv.envs.guess_env.models import WORDS
from openenv.integrations.dialects.as_verifiers import load_environment
from tests.chat_server import ChatService, call
from tests.cli.commands import run
from tests.integrations_table import Record

pytestmark = pytest.mark.process

Serving = Callable[[FastAPI], str]
FILE = f"verifiers:{Path(__file__).with_name('vf_math.py')}"


@pytest.mark.integration("dialects", "a single-turn and a multi-turn environment of verifiers", package="verifiers")
def test_texts_are_played_and_the_rubric_rewards_them(record_property: Record) -> None:
    with named_environment(f"{FILE}?kind=single").served() as served, served.client() as env:
        first = env.reset(seed=7).observation
        single = env.step(served.text.parse("6", first))
    with named_environment(f"{FILE}?kind=multi").served() as served, served.client() as env:
        seen = env.reset(seed=2).observation
        low = env.step(served.text.parse("5", seen))
        right = env.step(served.text.parse("6", seen))
        env.reset(seed=2)
        with pytest.raises(EnvironmentFault, match="invalid literal"):
            env.step(served.text.parse("no number", seen))
        assert env.reset(seed=0).observation.message == "1 + 1", "a rollout that failed ends alone"

    record_property("figure", f"rewards {single.reward}, {right.reward}")
    assert first.message == "3 + 3", "row 7 of 5 rows is row 2"
    assert "Calculate." in served.text.instructions(first)
    assert (single.reward, single.done) == (1.5, True)
    assert single.observation.metadata["metrics"] == {"is_right": 1.0, "brevity": 1.0, "num_turns": 1.0}
    assert (low.observation.message, low.done) == ("higher", False)
    assert (right.observation.message, right.reward, right.done) == ("right", 1.25, True)


@pytest.mark.integration(
    "dialects", "a tool environment of verifiers, by openenv eval with tool calls", package="verifiers"
)
def test_tools_are_called_by_a_model(serving: Serving, tmp_path: Path, record_property: Record) -> None:
    def reply(body: dict[str, Any]) -> dict[str, Any]:
        last = body["messages"][-1]
        if last["role"] == "tool":
            return call("reply", {"message": last["content"]})
        left, _, right = last["content"].split()
        return call("add", {"a": int(left), "b": int(right)})

    service = ChatService(reply)
    policy = f"llm:tiny@{serving(service.app())}/v1"
    done = run("eval", f"{FILE}?kind=tools", "--policy", policy, "--episodes", "5", "--json", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    (row,) = json.loads(done.stdout)

    record_property("figure", f"mean return {row['mean_return']}")
    assert [tool["function"]["name"] for tool in service.bodies[0]["tools"]] == ["add", "reply"]
    assert (row["mean_return"], row["mean_steps"], row["num_episodes"]) == (1.25, 2.0, 5)


def test_an_unknown_tool_is_refused_and_the_episode_goes_on() -> None:
    with named_environment(f"{FILE}?kind=tools").served() as served, served.client() as env:
        env.reset(seed=0)
        refused = env.step(CallToolAction(tool_name="multiply", arguments={}))
        ended = env.step(CallToolAction(tool_name="reply", arguments={"message": "2"}))

    assert (refused.observation.error.error_type, refused.done) == ("tool_not_found", False)
    assert (ended.reward, ended.done) == (1.5, True)


def test_names_that_cannot_be_loaded_are_errors_with_the_reason() -> None:
    for name, problem in (
        ("verifiers:no_such_environment", "no_such_environment"),
        ("verifiers:gone.py", "no file"),
        (f"{FILE}?sort=tools", "unexpected keyword argument 'sort'; its parameters are (kind: str"),
    ):
        done = run("serve", name)
        assert (done.returncode, problem in done.stderr) == (1, True), done.stderr
        assert "Traceback" not in done.stderr


def test_loading_leaves_the_handlers_of_signals_as_they_are() -> None:
    before = signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)
    load_verifiers(FILE.removeprefix("verifiers:"), {})
    assert (signal.getsignal(signal.SIGTERM), signal.getsignal(signal.SIGINT)) == before


@pytest.fixture(autouse=True)
def handlers_of_signals() -> Any:
    """verifiers sets handlers for each environment; the next test gets pytest's own."""
    before = {number: signal.getsignal(number) for number in (signal.SIGTERM, signal.SIGINT)}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def evaluated(
    environment: Any, url: str, monkeypatch: pytest.MonkeyPatch, *, num_examples: int = 3, rollouts: int = 2
) -> Any:
    """What verifiers' own `evaluate` returns, with a model behind an OpenAI-compatible endpoint."""
    monkeypatch.setenv("LOCAL_KEY", "none")
    config = verifiers.ClientConfig(api_key_var="LOCAL_KEY", api_base_url=f"{url}/v1")
    numbers = {"num_examples": num_examples, "rollouts_per_example": rollouts, "max_concurrent": 4}
    return asyncio.run(environment.evaluate(client=config, model="tiny", **numbers))


@pytest.mark.integration("dialects", "verifiers' evaluate plays guess, replies as text", package="verifiers")
def test_verifiers_plays_a_text_environment_of_ours(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    service = ChatService(lambda body: str(WORDS.index(body["messages"][-1]["content"])))
    with closing(load_environment("guess", num_examples=3)) as environment:
        results = evaluated(environment, serving(service.app()), monkeypatch)

    rewards = [output["reward"] for output in results["outputs"]]
    record_property("figure", f"{len(rewards)} rollouts, mean reward {sum(rewards) / len(rewards)}")
    assert rewards == [1.0] * 6
    assert service.bodies[0]["messages"][0]["role"] == "system"
    assert {output["stop_condition"] for output in results["outputs"]} == {"has_final_env_response"}


@pytest.mark.integration("dialects", "verifiers' evaluate plays calendar, with tool calls", package="verifiers")
def test_verifiers_plays_a_tool_environment_of_ours(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    cut_short, unknown = call("finish", '{"answer": '), call("no_such_tool", {})
    replies = [call("list_people", {}), cut_short, call("list_people", {}), unknown, call("finish", {})]

    def reply(body: dict[str, Any]) -> dict[str, Any]:
        number = sum(message["role"] == "assistant" for message in body["messages"])
        message = json.loads(json.dumps(replies[number]))
        message["tool_calls"][0]["id"] = f"call_{number}"
        return message

    service = ChatService(reply)
    with closing(load_environment("calendar", num_examples=3)) as environment:
        results = evaluated(environment, serving(service.app()), monkeypatch)

    record_property("figure", f"{len(results['outputs'])} rollouts, {len(service.bodies)} replies")
    assert len(service.bodies) == 30
    for output in results["outputs"]:
        roles = [message["role"] for message in output["completion"]]
        assert roles == ["assistant", "tool"] * 5
        assert "contains no tool call" in output["completion"][3]["content"]
        assert "no_such_tool" in output["completion"][7]["content"]
        assert output["metrics"]["num_unparseable"] == 2.0
        assert output["reward"] in (0.0, 1.0)
    assert {tool["function"]["name"] for tool in service.bodies[0]["tools"]} >= {"list_people", "finish"}


def test_replies_without_an_action_end_a_rollout_after_the_allowed_retries(
    serving: Serving, monkeypatch: pytest.MonkeyPatch
) -> None:
    service = ChatService(lambda body: "no number")
    with closing(load_environment("guess", num_examples=3, retries=2)) as environment:
        results = evaluated(environment, serving(service.app()), monkeypatch)

    assert len(service.bodies) == 6 * 3
    assert {output["metrics"]["num_unparseable"] for output in results["outputs"]} == {3.0}
    assert {output["reward"] for output in results["outputs"]} == {0.0}


@pytest.mark.integration("dialects", "50 episodes beside verifiers' own evaluate", package="verifiers")
def test_rewards_equal_those_of_verifiers_own_loop(
    serving: Serving, monkeypatch: pytest.MonkeyPatch, record_property: Record
) -> None:
    def guess(question: str, turn: int) -> str:
        """A guess near the answer, which some episodes find."""
        left, _, right = question.split()
        return str(int(left) + int(right) + Random(f"{question} {turn}").randrange(-2, 3))

    def reply(body: dict[str, Any]) -> str:
        asked = next(message["content"] for message in body["messages"] if message["role"] == "user")
        return guess(asked, sum(message["role"] == "assistant" for message in body["messages"]))

    name, found = f"{FILE}?kind=multi&num_rows=50", {}
    with named_environment(name).served() as served, served.client() as env:
        for seed in range(50):
            result, turn = env.reset(seed=seed), 0
            question = result.observation.message
            while not result.done:
                result, turn = env.step(ReplyAction(message=guess(question, turn))), turn + 1
            found[question] = result.reward
    own = load_verifiers(FILE.removeprefix("verifiers:"), {"kind": "multi", "num_rows": 50})
    url = serving(ChatService(reply).app())
    results = evaluated(own, url, monkeypatch, num_examples=50, rollouts=1)

    home = {output["prompt"][-1]["content"]: output["reward"] for output in results["outputs"]}
    record_property("figure", f"50 episodes, mean reward {sum(found.values()) / 50:.2f}")
    assert found == home
    assert len(found) == 50
    assert len({*found.values()}) > 3
