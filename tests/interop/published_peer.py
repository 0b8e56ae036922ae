"""Environments and clients written for the published openenv 0.10.0; runs in its own virtual environment.

serve PORT echo|catch|pixels an environment written for the published package, behind its server
episodes URL FILE            its generic client, the actions of each episode in a JSON file
play URL echo|catch|tools    its clients, generic and typed, asynchronous and synchronous, against a server of ours
"""

import asyncio
import json
import random
import sys
from pathlib import Path
from typing import Any

import pyspiel
import uvicorn

from openenv.core.client_types import StepResult
from openenv.core.env_client import EnvClient
from openenv.core.env_server.http_server import create_fastapi_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.mcp_types import CallToolAction
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.generic_client import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient


class EchoAction(Action):
    message: str


class EchoObservation(Observation):
    echoed_message: str = ""
    message_length: int = 0


class EchoState(State):
    last_message: str = ""


class EchoEnvironment(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._state = EchoState()

    def reset(self, seed=None, episode_id=None, **kwargs: Any) -> EchoObservation:
        self._state = EchoState(episode_id=episode_id)
        return EchoObservation(echoed_message="ready")

    def step(self, action, timeout_s=None, **kwargs: Any) -> EchoObservation:
        self._state.step_count += 1
        self._state.last_message = action.message
        length = len(action.message)
        return EchoObservation(echoed_message=action.message, message_length=length, reward=0.1 * length)

    @property
    def state(self) -> EchoState:
        return self._state


class OpenSpielAction(Action):
    action_id: int
    game_name: str = "catch"
    game_params: dict[str, Any] = {}  # noqa: RUF012  pydantic copies it


class OpenSpielObservation(Observation):
    info_state: list[float]
    legal_actions: list[int]
    game_phase: str = "playing"
    current_player_id: int = 0
    opponent_last_action: int | None = None


class CatchEnvironment(Environment):
    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        self._game = pyspiel.load_game("catch")
        self._state = State()

    def reset(self, seed=None, episode_id=None, **kwargs: Any) -> OpenSpielObservation:
        self._state = State(episode_id=episode_id, game_name="catch", agent_player=0, opponent_policy="random",
                            game_params={}, num_players=1)  # fmt: skip
        self._board = self._game.new_initial_state()
        self._board.apply_action(random.Random(seed).choice(self._board.legal_actions()))
        return self._seen(None)

    def step(self, action, timeout_s=None, **kwargs: Any) -> OpenSpielObservation:
        self._board.apply_action(action.action_id)
        self._state.step_count += 1
        return self._seen(self._board.rewards()[0])

    def _seen(self, reward) -> OpenSpielObservation:
        done = self._board.is_terminal()
        legal = [] if done else self._board.legal_actions()
        return OpenSpielObservation(
            info_state=self._board.observation_tensor(0), legal_actions=legal, done=done, reward=reward
        )

    @property
    def state(self) -> State:
        return self._state


class PixelAction(Action):
    action_id: int


class PixelObservation(Observation):
    screen: list


class PixelEnvironment(Environment):
    """Screens of 210x160x3 numbers as JSON has them; the lists are made when the environment is."""

    SUPPORTS_CONCURRENT_SESSIONS = True

    def __init__(self) -> None:
        super().__init__()
        rng = random.Random(0)
        self._screens = [[[rng.choices(range(256), k=3) for _ in range(160)] for _ in range(210)] for _ in range(2)]
        self._state = State()

    def reset(self, seed=None, episode_id=None, **kwargs: Any) -> PixelObservation:
        self._state = State(episode_id=episode_id)
        return PixelObservation(screen=self._screens[0])

    def step(self, action, timeout_s=None, **kwargs: Any) -> PixelObservation:
        self._state.step_count += 1
        return PixelObservation(screen=self._screens[self._state.step_count % 2], reward=0.0)

    @property
    def state(self) -> State:
        return self._state


SERVED = {
    "pixels": (PixelEnvironment, PixelAction, PixelObservation, State),
    "echo": (EchoEnvironment, EchoAction, EchoObservation, EchoState),
    "catch": (CatchEnvironment, OpenSpielAction, OpenSpielObservation, State),
}


def serve(port: int, name: str) -> None:
    environment, action, observation, state = SERVED[name]
    app = create_fastapi_app(environment, action, observation, max_concurrent_envs=256, env_name=name, state_cls=state)
    uvicorn.run(app, port=port, log_level="error")


def parsed(observation_class, payload) -> StepResult:
    seen = {**payload["observation"], "reward": payload["reward"], "done": payload["done"]}
    return StepResult(observation=observation_class(**seen), reward=seen["reward"], done=seen["done"])


class EchoEnv(EnvClient[EchoAction, EchoObservation, EchoState]):
    def _step_payload(self, action):
        return {"message": action.message}

    def _parse_result(self, payload):
        return parsed(EchoObservation, payload)

    def _parse_state(self, payload):
        return EchoState(**payload)


class CatchEnv(EnvClient[OpenSpielAction, OpenSpielObservation, State]):
    def _step_payload(self, action):
        return {"action_id": action.action_id, "game_name": action.game_name}

    def _parse_result(self, payload):
        return parsed(OpenSpielObservation, payload)

    def _parse_state(self, payload):
        return State(**payload)


class PixelEnv(EnvClient[PixelAction, PixelObservation, State]):
    def _step_payload(self, action):
        return {"action_id": action.action_id}

    def _parse_result(self, payload):
        return parsed(PixelObservation, payload)

    def _parse_state(self, payload):
        return State(**payload)


async def play_echo(url: str) -> dict[str, Any]:
    async with GenericEnvClient(base_url=url) as env:
        await env.reset()
        rewards = [(await env.step({"message": "x" * n})).reward for n in range(1, 4)]
        state = await env.state()
    return {"rewards": rewards, "steps": state["step_count"], "last": state["last_message"]}


async def play_catch(url: str, episodes: int = 20) -> dict[str, Any]:
    returns = []
    async with CatchEnv(base_url=url) as env:
        for seed in range(episodes):
            result = await env.reset(seed=seed)
            while not result.done:
                result = await env.step(OpenSpielAction(action_id=smart(result.observation.info_state)))
            returns.append(result.reward)
        state = await env.state()
    return {"returns": returns, "game": state.game_name, "steps": state.step_count}


def play_catch_synchronously(url: str) -> float:
    with CatchEnv(base_url=url).sync() as env:
        result = env.reset(seed=1)
        while not result.done:
            result = env.step(OpenSpielAction(action_id=smart(result.observation.info_state)))
    return result.reward


async def play_tools(url: str) -> dict[str, Any]:
    async with MCPToolClient(base_url=url) as env:
        await env.reset()
        tools = sorted(tool.name for tool in await env.list_tools())
        called = await env.call_tool("echo_with_length", message="hello")
        stepped = await env.step(CallToolAction(tool_name="echo_message", arguments={"message": "hi"}))
        unknown = await env.step(CallToolAction(tool_name="nope"))
        state = await env.state()
    return {
        "tools": tools,
        "called": called,
        "stepped": stepped.observation.result["data"],
        "unknown": unknown.observation.error.error_type.value,
        "steps": state.step_count,
    }


def smart(board: list[float]) -> int:
    """Towards the ball: the board is ten rows of five, ball and paddle are ones."""
    ball = board.index(1.0) % 5
    paddle = board[-5:].index(1.0)
    return 0 if ball < paddle else 2 if ball > paddle else 1


async def play_episodes(url: str, episodes: list[list[dict[str, Any]]]) -> list[list[float]]:
    """The rewards of the actions of each episode, until it ends. Its seed is its number."""
    found: list[list[float]] = []
    async with GenericEnvClient(base_url=url) as env:
        for seed, actions in enumerate(episodes):
            result = await env.reset(seed=seed)
            found.append([])
            for action in actions:
                if not result.done:
                    result = await env.step(action)
                    found[-1].append(result.reward)
    return found


if __name__ == "__main__":
    command, where, name = sys.argv[1:]
    if command == "episodes":
        print(json.dumps(asyncio.run(play_episodes(where, json.loads(Path(name).read_text())))))
    elif command == "serve":
        serve(int(where), name)
    elif name in ("echo", "tools"):
        print(json.dumps(asyncio.run(play_echo(where) if name == "echo" else play_tools(where))))
    else:
        print(json.dumps({**asyncio.run(play_catch(where)), "sync": play_catch_synchronously(where)}))
