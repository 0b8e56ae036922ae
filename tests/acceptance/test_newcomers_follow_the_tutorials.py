"""The tutorials of the published package work here under `openenv.`, with the same names and calls."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import List  # noqa: UP035  tutorials write their environments so

import pytest

from openenv.core.client_types import StepResult
from openenv.core.env_server import Action, Environment, Observation, State, create_fastapi_app
from openenv.core.http_env_client import HTTPEnvClient
from openenv.envs.openspiel_env import OpenSpielAction, OpenSpielEnv
from openenv.envs.openspiel_env.models import OpenSpielObservation, OpenSpielState
from openenv.grpo_utils import play_random_policy, show_openenv_observation
from openenv.hosting.local_process import LocalServer

pytestmark = pytest.mark.process


@pytest.fixture(scope="module")
def blackjack_url() -> Iterator[str]:
    """A server whose game is set by environment variables, as in the tutorials."""
    variables = {"OPENSPIEL_GAME": "blackjack", "OPENSPIEL_AGENT_PLAYER": "0", "OPENSPIEL_OPPONENT_POLICY": "random"}
    with LocalServer("openenv.envs.openspiel_env.server.app", env_vars=variables) as server:
        yield server.base_url


@pytest.fixture(scope="module")
def catch_url() -> Iterator[str]:
    with LocalServer("uvicorn", ["openenv.envs.openspiel_env.server.app:app"]) as server:
        yield server.base_url


async def test_connect_reset_show_in_a_notebook(blackjack_url, capsys):
    env = OpenSpielEnv(base_url=blackjack_url)
    result = env.reset()
    show_openenv_observation(result.observation)
    env.close()

    assert "Hit" in capsys.readouterr().out
    assert result.observation.legal_actions == [0, 1]


async def test_the_random_policy_is_measured(blackjack_url):
    stats = play_random_policy(blackjack_url, num_games=100)

    assert stats["total_games"] == 100 == stats["wins"] + stats["losses"] + stats["pushes"]
    assert 0.1 < stats["win_rate"] < 0.5


def test_the_messages_list_their_fields():
    assert [f.name for f in fields(OpenSpielAction)] == ["metadata", "action_id", "game_name", "game_params"]
    assert [f.name for f in fields(OpenSpielObservation)] == [
        "done", "reward", "metadata", "info_state", "legal_actions", "game_phase", "current_player_id",
        "opponent_last_action",
    ]  # fmt: skip
    assert [f.name for f in fields(OpenSpielState)] == [
        "episode_id", "step_count", "game_name", "agent_player", "opponent_policy", "game_params", "num_players",
    ]  # fmt: skip


def test_step_and_state_as_the_tutorials_call_them(catch_url):
    env = OpenSpielEnv(base_url=catch_url)
    env.reset()
    result = env.step(OpenSpielAction(action_id=2, game_name="catch"))
    state = env.state()
    env.close()

    assert (result.done, state.game_name, state.step_count) == (False, "catch", 1)


class GuessingPolicy:
    """A user's own policy: a name and `select_action`, drawing from the global generator."""

    name = "guesser"

    def select_action(self, observation: OpenSpielObservation) -> int:
        return random.choice(observation.legal_actions)


class FollowingPolicy:
    """A user's own policy that reads the flattened board."""

    name = "follower"

    def select_action(self, observation: OpenSpielObservation) -> int:
        ball = next(i for i, cell in enumerate(observation.info_state) if abs(cell - 1.0) < 0.01) % 5
        paddle = observation.info_state[-5:].index(1.0)
        return 2 if paddle < ball else 0 if paddle > ball else 1


def test_a_competition_of_users_own_policies(catch_url):
    def caught(env: OpenSpielEnv, policy: GuessingPolicy | FollowingPolicy) -> bool:
        result = env.reset()
        while not result.done:
            result = env.step(OpenSpielAction(action_id=policy.select_action(result.observation), game_name="catch"))
        return result.reward > 0

    with OpenSpielEnv(base_url=catch_url) as env:
        successes = {p.name: sum(caught(env, p) for _ in range(30)) for p in (GuessingPolicy(), FollowingPolicy())}

    assert successes["follower"] == 30
    assert successes["guesser"] < 20


# An environment of one's own, in five steps.


@dataclass
class YourAction(Action):
    action_value: int


@dataclass
class YourObservation(Observation):
    state_data: List[float]  # noqa: UP006
    done: bool
    reward: float


@dataclass
class YourState(State):
    episode_id: str
    step_count: int


class YourEnvironment(Environment):
    def reset(self) -> Observation:
        self._state = YourState(episode_id="mine", step_count=0)
        return YourObservation(state_data=[0.0], done=False, reward=0.0)

    def step(self, action: Action) -> Observation:
        self._state.step_count += 1
        return YourObservation(state_data=[float(action.action_value)], done=action.action_value > 2, reward=1.0)

    @property
    def state(self) -> State:
        return self._state


class YourEnv(HTTPEnvClient[YourAction, YourObservation]):
    def _step_payload(self, action: YourAction) -> dict:
        return {"action_value": action.action_value}

    def _parse_result(self, payload: dict) -> StepResult:
        return StepResult(
            observation=YourObservation(**payload["observation"], done=payload["done"], reward=payload["reward"]),
            reward=payload["reward"],
            done=payload["done"],
        )

    def _parse_state(self, payload: dict) -> YourState:
        return YourState(**payload)


def test_an_own_environment_in_five_steps_from_one_ready_instance(serving):
    url = serving(create_fastapi_app(YourEnvironment()))
    with YourEnv(base_url=url) as client:
        first = client.reset()
        last = client.step(YourAction(action_value=3))
        state = client.state()

    assert (first.observation.state_data, last.observation.state_data, last.done) == ([0.0], [3.0], True)
    assert (state.episode_id, state.step_count) == ("mine", 1)
