"""The Open Reward Standard, both ways, with the client and the server of the package openreward."""

import json
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from random import Random
from typing import Any

import httpx
import pytest
from fastapi import FastAPI

from openenv.auto.environment import named_environment
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.dialects.ors_environment import parse_events
from openenv.hosting.server_process import free_port, wait_until_ready
from openenv.integrations.dialects.ors_server import ors_app
from tests.cli.commands import run
from tests.integrations_table import Record

pytestmark = pytest.mark.process

OPENREWARD = os.environ.get("OPENREWARD_PYTHON", ".venv-openreward/bin/python")
"""The Python of openreward, whose requirements exclude some of ours; `make .venv-openreward/.installed` makes it."""
PEER = str(Path(__file__).with_name("openreward_peer.py"))
needs_openreward = pytest.mark.skipif(not Path(OPENREWARD).is_file(), reason="no .venv-openreward")
Bridged = Callable[[str], str]


@pytest.fixture
def bridged(serving: Callable[[FastAPI], str]) -> Iterator[Bridged]:
    """Serve an environment over the standard's routes, with ten tasks a split; returns the URL."""
    with ExitStack() as servers:
        yield lambda name: serving(
            ors_app(servers.enter_context(named_environment(name).served()), num_tasks=10, name="bridged")
        )


@pytest.fixture(scope="module")
def quiz() -> Iterator[str]:
    """The URL of a quiz that is written with openreward and runs on its server."""
    port = free_port()
    server = subprocess.Popen([OPENREWARD, PEER, "serve", str(port)], stdout=subprocess.DEVNULL)
    url = f"http://127.0.0.1:{port}"
    try:
        wait_until_ready(url, 60.0, lambda: server.poll() and "the server has ended")
        yield url
    finally:
        server.terminate()
        server.wait(10)


def played(url: str, *calls: tuple[str, Any]) -> dict[str, Any]:
    """What a client of openreward receives."""
    command = [OPENREWARD, PEER, "play", url, json.dumps(calls)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found


@needs_openreward
@pytest.mark.integration("dialects", "openreward's client plays guess and calendar over ORS")
def test_openrewards_client_plays_environments_of_ours(bridged: Bridged, record_property: Record) -> None:
    with named_environment("guess").served() as served, served.client() as env:
        word = env.reset(seed=3).observation.word
    guessed = played(bridged("guess"), ("nope", {}), ("guess", {"number": 99}), ("guess", {"number": 0}), ("guess", {}))
    called = played(bridged("calendar"), ("list_people", {}), ("finish", {}))

    record_property("figure", f"openreward {guessed['version']}: {len(guessed['tools'] + called['tools'])} tools")
    assert guessed["splits"] == ["train", "test"]
    assert (guessed["num_tasks"], guessed["task"]) == (10, {"seed": 3})
    assert guessed["prompt"][-1] == word
    unknown, invalid, right, over = guessed["outputs"]
    assert "there is no tool 'nope'" in unknown["error"]
    assert "number: " in invalid["error"]
    assert (right["reward"] in (0.0, 1.0), right["finished"]) == (True, True)
    assert "episode is over" in over["error"] or "finished" in over["error"].lower()
    people, finish = called["outputs"]
    assert "name" in people["text"]
    assert (finish["finished"], finish["reward"] in (0.0, 1.0)) == (True, True)


@needs_openreward
@pytest.mark.integration("dialects", "an environment on openreward's server, played as one of ours")
def test_an_environment_of_openreward_is_played_as_one_of_ours(quiz: str, record_property: Record) -> None:
    with named_environment(f"ors:{quiz}").served() as served, served.client() as env:
        first = env.reset(seed=4).observation
        tools = {tool.name for tool in served.text.functions(first)}
        helped = env.step(CallToolAction(tool_name="add", arguments={"a": 3, "b": 3}))
        wrong = env.step(CallToolAction(tool_name="add", arguments={"a": "x", "b": 3}))
        ended = env.step(CallToolAction(tool_name="submit", arguments={"answer": "6"}))
        other = env.reset(split="test", index=0).observation

    record_property("figure", f"rewards {helped.reward}, {ended.reward}")
    assert (first.message, first.metadata["index"], other.message) == ("3 + 3", 1, "7 + 7"), "4 counts on from task 0"
    assert tools == {"add", "submit"}, "the tool that ends an episode is a tool like the others"
    assert (helped.observation.result, helped.reward, helped.done) == ("6", 0.25, False)
    assert helped.observation.metadata["helped"] is True
    assert wrong.observation.error.error_type == "invalid_args"
    assert (ended.observation.result, ended.reward, ended.done) == ("right", 1.0, True)


@needs_openreward
@pytest.mark.integration("dialects", "50 episodes beside openreward's own client")
def test_rewards_equal_those_of_openrewards_own_client(quiz: str, tmp_path: Path, record_property: Record) -> None:
    episodes = list[tuple[int, list[tuple[str, Any]]]]()
    for seed in range(50):
        rng = Random(seed)
        calls = [("add", {"a": rng.randrange(9), "b": rng.randrange(9)}) for _ in range(rng.randrange(3))]
        episodes.append((seed % 3, [*calls, ("submit", {"answer": rng.choice(["4", "6", "10"])})]))
    found = list[list[float | None]]()
    with named_environment(f"ors:{quiz}").served() as served, served.client() as env:
        for seed, (_, calls) in enumerate(episodes):
            env.reset(seed=seed)
            found.append([env.step(CallToolAction(tool_name=tool, arguments=given)).reward for tool, given in calls])
    (tmp_path / "episodes.json").write_text(json.dumps(episodes))
    command = [OPENREWARD, PEER, "many", quiz, str(tmp_path / "episodes.json")]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300, check=True)

    home = json.loads(done.stdout.splitlines()[-1])
    record_property("figure", f"50 episodes, mean reward {sum(map(sum, home)) / 50:.2f}")
    assert found == home
    assert len({sum(rewards) for rewards in home}) > 3


@needs_openreward
def test_openenv_eval_plays_it_at_random(quiz: str, tmp_path: Path) -> None:
    done = run("eval", f"ors:{quiz}", "--episodes", "3", "--max-steps", "5", "--json", cwd=tmp_path)

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)[0]["num_episodes"] == 3


def event(response: httpx.Response) -> Any:
    assert response.headers["content-type"].startswith("text/event-stream")
    return parse_events(response.text)


def test_the_routes_of_the_standard(bridged: Bridged) -> None:
    """The same over plain HTTP, with and without the environment's name in the path."""
    with httpx.Client(base_url=bridged("guess"), timeout=30) as http:
        assert http.get("/list_environments").json() == ["bridged"]
        assert http.get("/bridged/tools").json() == http.get("/tools").json()
        assert http.get("/other/tools").status_code == 404
        assert http.post("/task", json={"split": "test", "index": 2}).json()["task"] == {"seed": 12}
        assert http.post("/task_range", json={"split": "train", "start": 8}).json()["tasks"] == [
            {"seed": 8},
            {"seed": 9},
        ]
        assert http.post("/task", json={"split": "test", "index": 10}).status_code == 400
        assert http.post("/num_tasks", json={"split": "dev"}).status_code == 400
        assert http.get("/prompt").status_code == 400, "without a session"
        (started, _) = event(http.post("/create_session"))
        sid = {"X-Session-ID": started[1]}
        assert http.get("/prompt", headers=sid).status_code == 404, "before it is created"
        assert http.post("/create", headers=sid, json={"split": "train", "index": 1}).json() == {"sid": started[1]}
        assert http.post("/create", headers=sid, json={"split": "train", "index": 1}).status_code == 400
        call = {"name": "guess", "input": {"number": 0}}
        first = event(http.post("/bridged/call", headers=sid, json=call))
        again = event(http.post("/call", headers=sid, json={**call, "task_id": first[0][1]}))
        assert json.loads(first[-1][1])["output"]["finished"] is True
        assert again == first, "a repeated id gives the first result, and steps no second time"
        assert http.post("/ping", headers=sid).json() == {"status": "ok"}
        http.post("/delete", headers=sid)
        assert http.post("/ping", headers=sid).status_code == 404


@pytest.mark.parametrize(
    ("name", "problem"), [("ors:localhost:80", "write ors:http://HOST:PORT"), ("ors:http://127.0.0.1:9", "Open Reward")]
)
def test_what_is_no_server_is_an_error_with_the_remedy(name: str, problem: str) -> None:
    done = run("serve", name)
    assert (done.returncode, problem in done.stderr) == (1, True), done.stderr


def test_a_dialect_that_is_not_there_is_an_error() -> None:
    done = run("serve", "guess", "--dialect", "soap")
    assert (done.returncode, "there is ors" in done.stderr) == (1, True)
