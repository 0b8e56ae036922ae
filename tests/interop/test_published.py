"""The published package and ours play together, in both directions. Run by `make interop`."""

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path
from random import Random

import pytest

from openenv.auto.environment import named_environment
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.errors import EnvironmentFault
from openenv.core.mcp_client import MCPToolClient
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.envs.openspiel_env import OpenSpielEnv
from openenv.hosting.local_process import LocalServer
from openenv.hosting.server_process import free_port, wait_until_healthy
from openenv.policies import make_policy

pytestmark = pytest.mark.interop

PEER = Path(__file__).with_name("published_peer.py")
TOOLS = PEER.parent / "recorded/mcp_echo.py"
PYTHON = os.environ.get("PUBLISHED_PYTHON", ".venv-published/bin/python")


def published_client(url: str, name: str) -> dict:
    done = subprocess.run([PYTHON, PEER, "play", url, name], capture_output=True, text=True, timeout=120, check=False)
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout.splitlines()[-1])


def published_server(name: str) -> AbstractContextManager[str]:
    return running(lambda port: [PYTHON, str(PEER), "serve", str(port), name])


@contextmanager
def running(command: Callable[[int], list[str]]) -> Iterator[str]:
    """The URL of a server that a command runs at the port that it is given."""
    port = free_port()
    process = subprocess.Popen(command(port))
    try:
        wait_until_healthy(f"http://127.0.0.1:{port}", process, timeout_s=60)
        yield f"http://127.0.0.1:{port}"
    finally:
        process.terminate()
        process.communicate(timeout=10)


def test_its_client_plays_echo_on_our_server():
    with LocalServer("openenv.envs.echo_env.server.app") as server:
        played = published_client(server.base_url, "echo")

    assert played == {"rewards": [0.1, 0.2, pytest.approx(0.3)], "steps": 3, "last": "xxx"}


def test_its_clients_play_catch_on_our_server():
    with LocalServer("openenv.envs.openspiel_env.server.app", ["--game", "catch"]) as server:
        played = published_client(server.base_url, "catch")

    assert played == {"returns": [1.0] * 20, "game": "catch", "steps": 9, "sync": 1.0}


def test_its_client_of_tools_works_with_our_server():
    with running(lambda port: [sys.executable, str(TOOLS), str(port)]) as url:
        played = published_client(url, "tools")

    assert played == {
        "tools": ["echo_message", "echo_with_length"],
        "called": {"message": "hello", "length": 5},
        "stepped": "hi",
        "unknown": "tool_not_found",
        "steps": 2,
    }


def test_our_client_of_tools_works_with_its_server():
    with running(lambda port: [PYTHON, str(TOOLS), str(port)]) as url, MCPToolClient(url) as env:
        env.reset()
        assert [tool.name for tool in env.list_tools()] == ["echo_message", "echo_with_length"]
        assert env.call_tool("echo_with_length", message="hello") == {"message": "hello", "length": 5}
        stepped = env.step(CallToolAction(tool_name="echo_message", arguments={"message": "hi"}))
        assert stepped.observation.result["data"] == "hi"
        with pytest.raises(EnvironmentFault, match="Unknown tool: 'nope'"):
            env.call_tool("nope")
        assert env.state().step_count == 1


def test_our_client_plays_echo_on_its_server():
    with published_server("echo") as url, EchoEnv(base_url=url) as env:
        env.reset(episode_id="e1")
        results = [env.step(EchoAction(message="x" * n)) for n in range(1, 4)]
        state = env.state()

    assert [round(result.reward, 3) for result in results] == [0.1, 0.2, 0.3]
    assert (results[-1].observation.echoed_message, state.step_count, state.episode_id) == ("xxx", 3, "e1")


async def test_our_clients_play_catch_on_its_server():
    policy = make_policy("smart")
    with published_server("catch") as url:
        async with OpenSpielEnv(base_url=url) as env:
            returns = []
            for seed in range(20):
                result = await env.reset(seed=seed)
                while not result.done:
                    result = await env.step(policy.select_action(result.observation))
                returns.append(result.reward)
            state = await env.state()

    assert returns == [1.0] * 20
    assert (state.game_name, state.step_count) == ("catch", 9)


WALK = """
from random import Random

from openenv.core.env_server import Action, Environment, Observation, State, create_app


class Move(Action):
    by: int


class Place(Observation):
    at: int


class Walk(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self):
        super().__init__()
        self._state = State()

    def reset(self, seed=None, episode_id=None, **kwargs):
        self._rng, self.at = Random(seed), 0
        self.goal = self._rng.randrange(5)
        return Place(at=0)

    def step(self, action, timeout_s=None, **kwargs):
        self.at += action.by + self._rng.choice([-1, 0, 1])
        return Place(at=self.at, reward=-abs(self.at - self.goal) / 4, done=self.at == self.goal)

    @property
    def state(self):
        return self._state


app = create_app(Walk, Move, Place, env_name="walk")
"""
"""An environment of a folder, as the published package documents it."""


def test_fifty_episodes_of_a_folder_have_the_rewards_of_its_server_and_client(tmp_path: Path) -> None:
    (tmp_path / "walk/server").mkdir(parents=True)
    (tmp_path / "walk/openenv.yaml").write_text("name: walk\napp: server.app:app\n")
    (tmp_path / "walk/server/app.py").write_text(WALK)
    episodes = [[{"by": Random(seed).randrange(-1, 3)} for _ in range(4)] for seed in range(50)]
    (tmp_path / "episodes.json").write_text(json.dumps(episodes))

    def command(port: int) -> list[str]:
        return [PYTHON, "-m", "uvicorn", "--app-dir", str(tmp_path / "walk"), "server.app:app", "--port", str(port)]

    with running(command) as url:
        play = [PYTHON, PEER, "episodes", url, str(tmp_path / "episodes.json")]
        home = json.loads(subprocess.run(play, capture_output=True, text=True, timeout=120, check=True).stdout)
    found = list[list[float | None]]()
    with named_environment(str(tmp_path / "walk")).served() as served, served.client() as env:
        for seed, actions in enumerate(episodes):
            result = env.reset(seed=seed)
            found.append([])
            for action in actions:
                if not result.done:
                    result = env.step(action)
                    found[-1].append(result.reward)
    assert found == home
    assert len({sum(rewards) for rewards in home}) > 10
