"""Resources servers of NeMo Gym: a stand-in with its routes, and NeMo Gym itself where its Python is named."""

import contextlib
import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from random import Random
from typing import Any
from uuid import uuid4

import httpx
import pytest
from fastapi import FastAPI, HTTPException, Request, Response

from openenv.auto.environment import named_environment
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.errors import EnvironmentFault, OpenEnvError
from openenv.dialects.names import dialect_spec
from openenv.dialects.tool_environment import ReplyAction
from openenv.hosting.server_process import free_port
from tests.integrations_table import Record

pytestmark = pytest.mark.process

NEMO_GYM = os.environ.get("NEMO_GYM_PYTHON", "")
"""The Python of NeMo Gym, which is on no package index: its source is on that Python's path."""
PEER = str(Path(__file__).with_name("nemo_gym_peer.py"))
EPISODES = 50
TOOLS = [
    {"type": "function", "name": "add", "description": "Add to the counter", "strict": True,
     "parameters": {"type": "object", "properties": {"amount": {"type": "integer"}}, "required": ["amount"]}},
    {"type": "function", "name": "value", "strict": True, "parameters": {"type": "object", "properties": {}}},
]  # fmt: skip


def row(number: int, **fields: Any) -> dict[str, Any]:
    rng = Random(number)
    asked = [{"role": "user", "content": f"Task {number}: bring the counter to its goal."}]
    start, goal = rng.randrange(5), rng.randrange(8)
    return {"responses_create_params": {"input": asked, "tools": TOOLS}, "start": start, "goal": goal, **fields}


def script(number: int) -> dict[str, Any]:
    """What is done in an episode: a third reaches the goal."""
    rng, task = Random(1000 + number), row(number)
    amounts = [rng.randrange(-2, 4) for _ in range(rng.randrange(3))]
    if number % 3 == 0:
        amounts.append(task["goal"] - task["start"] - sum(amounts))
    calls: list[list[Any]] = [["add", {"amount": amount}] for amount in amounts]
    return {
        "calls": [*calls, ["value", {}]][: None if number % 2 else -1],
        "message": " ".join(["so"] * (number % 4 + 1)),
    }


def dataset(folder: Path, rows: list[dict[str, Any]]) -> Path:
    path = folder / "counter/data/example.jsonl"
    path.parent.mkdir(parents=True)
    path.write_text("\n".join(map(json.dumps, rows)) + "\n")
    return path


def counter_app() -> FastAPI:
    """The routes of the peer's server, and its cookie for a session."""
    app, counters = FastAPI(), dict[str, int]()

    def session(request: Request) -> str:
        if request.cookies.get("counter") not in counters:
            raise HTTPException(400, "there is no session")
        return request.cookies["counter"]

    @app.post("/seed_session")
    async def seed_session(request: Request, response: Response) -> dict[str, Any]:
        body = await request.json()
        if body["start"] < 0:
            raise HTTPException(422, "start: below 0")
        response.set_cookie("counter", name := uuid4().hex)
        counters[name] = body["start"]
        return {}

    @app.post("/add")
    async def add(request: Request) -> dict[str, Any]:
        counters[session(request)] += (await request.json())["amount"]
        return {"value": counters[session(request)]}

    @app.post("/value")
    async def value(request: Request) -> dict[str, Any]:
        return {"value": counters[session(request)]}

    @app.post("/verify")
    async def verify(request: Request) -> dict[str, Any]:
        body = await request.json()
        items = body["response"]["output"]
        calls = sum(item["type"] == "function_call" for item in items)
        words = items[-1]["content"][0]["text"].split() if items[-1]["type"] == "message" else []
        if body.get("masked"):
            return {**body, "reward": 1.0, "instance_config": {"mask_sample": True}}
        return {**body, "reward": (counters[session(request)] == body["goal"]) - 0.1 * calls, "num_words": len(words)}

    return app


def played(name: str, count: int) -> list[dict[str, Any]]:
    """The end of the scripted episode of each seed."""
    found = []
    with named_environment(name).served() as served, served.client() as env:
        for seed in range(count):
            env.reset(seed=seed)
            for tool, arguments in script(seed)["calls"]:
                assert not env.step(CallToolAction(tool_name=tool, arguments=arguments)).done
            end = env.step(CallToolAction(tool_name="reply", arguments={"message": script(seed)["message"]}))
            assert end.done
            found.append({"reward": end.reward, **end.observation.metadata["metrics"]})
    return found


@pytest.mark.integration("dialects", "a resources server of NeMo Gym, by nemo-gym:URL")
def test_a_resources_server_is_played(serving: Callable[[FastAPI], str], tmp_path: Path) -> None:
    data = dataset(tmp_path, [row(number) for number in range(3)])
    url = serving(counter_app())
    with named_environment(f"nemo-gym:{url}?data={data}").served() as served, served.client() as env:
        first = env.reset(seed=4).observation
        listed = served.text.functions(first)
        added = env.step(CallToolAction(tool_name="add", arguments={"amount": 2})).observation
        wrong = env.step(CallToolAction(tool_name="seed_session", arguments={})).observation
        end = env.step(CallToolAction(tool_name="reply", arguments={"message": "three words here"}))
        again = env.reset(index=1).observation

    assert first.message == again.message == "Task 1: bring the counter to its goal."
    assert [tool.name for tool in listed] == ["add", "value", "reply"]
    assert json.loads(added.result) == {"value": row(1)["start"] + 2}
    assert "there is no tool 'seed_session'. Tools: add, reply, value" in wrong.error.message
    assert end.observation.metadata["metrics"] == {"num_words": 3.0}
    assert end.reward == pytest.approx((row(1)["start"] + 2 == row(1)["goal"]) - 0.1)


def test_the_environment_ends_at_its_number_of_steps(serving: Callable[[FastAPI], str], tmp_path: Path) -> None:
    name = f"nemo-gym:{serving(counter_app())}?data={dataset(tmp_path, [row(0)])}&max_steps=2"
    with named_environment(name).served() as served, served.client() as env:
        env.reset()
        assert not env.step(CallToolAction(tool_name="value", arguments={})).done
        assert env.step(CallToolAction(tool_name="value", arguments={})).done


def test_tasks_without_tools_are_one_message(serving: Callable[[FastAPI], str], tmp_path: Path) -> None:
    parts = [{"type": "input_text", "text": "Say "}, {"type": "input_image", "image_url": "x"}]
    asked = {"input": [{"role": "system", "content": "Be brief."}, {"role": "user", "content": parts}]}
    data = dataset(tmp_path, [row(0, responses_create_params=asked, start=3, goal=3)])
    with named_environment(f"nemo-gym:{serving(counter_app())}?data={data}").served() as served, served.client() as env:
        shown = env.reset().observation.message
        end = env.step(ReplyAction(message="yes"))

    assert shown == "Be brief.\n\nSay [input_image]"
    assert (end.reward, end.done, end.observation.metadata["metrics"]) == (1.0, True, {"num_words": 1.0})


def test_what_the_server_refuses_makes_the_episode_invalid(serving: Callable[[FastAPI], str], tmp_path: Path) -> None:
    name = f"nemo-gym:{serving(counter_app())}?data={dataset(tmp_path, [row(0, start=-1), row(1)])}"
    with named_environment(name).served() as served, served.client() as env:
        with pytest.raises(EnvironmentFault, match=r"/seed_session: status 422: .*start: below 0"):
            env.reset(seed=0)
        env.reset(seed=1)


def test_an_episode_that_the_server_masks_has_no_reward(serving: Callable[[FastAPI], str], tmp_path: Path) -> None:
    name = f"nemo-gym:{serving(counter_app())}?data={dataset(tmp_path, [row(0, masked=True)])}"
    with named_environment(name).served() as served, served.client() as env:
        env.reset()
        with pytest.raises(EnvironmentFault, match="mask_sample is true"):
            env.step(CallToolAction(tool_name="reply", arguments={"message": "x"}))


@pytest.mark.parametrize(
    ("target", "error", "message"),
    [
        ("nemo-gym:http://localhost:1", ValueError, r"write nemo-gym:http://HOST:PORT\?data=FILE\.jsonl"),
        ("nemo-gym:localhost:1?data=x", ValueError, "write nemo-gym:http"),
        ("nemo-gym:http://localhost:1?data=nowhere.jsonl", LookupError, "there is no file nowhere.jsonl"),
        ("nemo-gym:http://localhost:1?data=empty.jsonl", ValueError, "empty.jsonl has no rows"),
        ("nemo-gym:http://localhost:1?data=wrong.jsonl", ValueError, "wrong.jsonl, line 2: no JSON object with"),
    ],
)
def test_a_name_that_is_none_is_refused(
    target: str, error: type[Exception], message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("empty.jsonl").write_text("\n")
    Path("wrong.jsonl").write_text(f"{json.dumps(row(0))}\n[1]\n")

    with pytest.raises(error, match=message):
        dialect_spec(target)


def test_a_server_that_is_not_there_is_named(tmp_path: Path) -> None:
    name = f"nemo-gym:http://127.0.0.1:{free_port()}?data={dataset(tmp_path, [row(0)])}"
    with (
        named_environment(name).served() as served,
        served.client() as env,
        pytest.raises(OpenEnvError, match="does not answer /seed_session as a resources server of NeMo Gym"),
    ):
        env.reset()


def wait_until_answered(url: str, process: subprocess.Popen[bytes], limit_s: float = 120.0) -> None:
    deadline = time.monotonic() + limit_s
    while time.monotonic() < deadline and process.poll() is None:
        with contextlib.suppress(httpx.TransportError):
            httpx.get(url)
            return
        time.sleep(0.2)
    raise AssertionError(f"{url} did not answer within {limit_s:g} s")


@pytest.mark.skipif(not NEMO_GYM, reason="no NEMO_GYM_PYTHON: NeMo Gym is on no package index, and needs Python 3.13")
@pytest.mark.integration("dialects", "50 episodes beside NeMo Gym's own agent, with equal rewards")
def test_rewards_equal_those_of_nemo_gyms_own_agent(tmp_path: Path, record_property: Record) -> None:
    rows = [row(number) for number in range(EPISODES)]
    data, scripts, port = dataset(tmp_path, rows), tmp_path / "scripts.json", free_port()
    scripts.write_text(
        json.dumps({r["responses_create_params"]["input"][0]["content"]: script(n) for n, r in enumerate(rows)})
    )
    peer = subprocess.Popen([NEMO_GYM, PEER, str(port), str(scripts)])
    try:
        wait_until_answered(f"http://127.0.0.1:{port + 2}/openapi.json", peer)
        ran = [httpx.post(f"http://127.0.0.1:{port + 1}/run", json=one, timeout=60).json() for one in rows]
        found = played(f"nemo-gym:http://127.0.0.1:{port}?data={data}", EPISODES)
    finally:
        peer.terminate()
        peer.wait(30)

    home = [{"reward": one["reward"], "num_words": one["num_words"]} for one in ran]
    record_property("figure", f"{EPISODES} episodes, mean reward {sum(one['reward'] for one in home) / EPISODES:.2f}")
    assert found == home
    assert len({one["reward"] for one in home}) > 3
