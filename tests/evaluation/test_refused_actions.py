"""An action that the environment refuses is the player's fault: it chooses again, or the episode is unparseable."""

import json
from typing import Any

import pytest

from openenv.auto.environment import ServedEnvironment, named_environment
from openenv.core.env_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.errors import EnvironmentFault, is_refused_action
from openenv.core.session_pool import SessionPool
from openenv.evaluation import EpisodeResult, play_episodes
from openenv.evaluation.episode_files.recorder import EpisodeRecorder
from openenv.evaluation.episode_files.records import EpisodeSource
from openenv.policies import LanguageModelPolicy
from openenv.policies.baselines import RandomPolicy
from openenv.policies.conversations import ReplyRules
from openenv.policies.prompts import ChatMessage
from tests.conftest import Serving


class Take(Action):
    """Take coins from the pile."""

    coins: int


class Pile(Observation):
    """What is left."""

    left: int


class Coins(Environment[Take, Pile, State]):
    """Ten coins. The last one wins. The class of the action bounds nothing."""

    def __init__(self) -> None:
        self._left = 10

    def reset(self, seed: int | None = None, episode_id: str | None = None, **kwargs: Any) -> Pile:
        self._left = 10
        return Pile(left=10)

    def step(self, action: Take, timeout_s: float | None = None, **kwargs: Any) -> Pile:
        if action.coins == 666:
            raise KeyError("coins")
        if action.coins == 502:
            json.loads("<html>Bad gateway")
        if not 1 <= action.coins <= self._left:
            raise ValueError(f"coins={action.coins}: take 1 to {self._left}")
        self._left -= action.coins
        return Pile(left=self._left, reward=1.0 if self._left == 0 else 0.0, done=self._left == 0)

    @property
    def state(self) -> State:
        return State()


class IsolatedCoins(Coins):
    execution = "process"


@pytest.fixture(params=[Coins, IsolatedCoins])
def coins(request: pytest.FixtureRequest, serving: Serving) -> ServedEnvironment:
    url = serving(create_app(request.param))
    return named_environment(url).served_at(url)


def take(served: ServedEnvironment, coins: int) -> Any:
    """The action, of the class that the client has."""
    return served.client_class._message_classes[0](coins=coins)


class Script:
    """A language model with one list of replies, which it gives in every episode. It keeps what it was shown last."""

    def __init__(self, *replies: str) -> None:
        self._replies = replies
        self.shown: list[ChatMessage] = []

    def __call__(self, conversations: list[list[ChatMessage]]) -> list[str]:
        self.shown = conversations[-1]
        return [self._replies[sum(m["role"] == "assistant" for m in messages)] for messages in conversations]


async def play(served: ServedEnvironment, policy: Any, num_episodes: int = 1, **kwargs: Any) -> list[EpisodeResult]:
    async with SessionPool(served.client_class, served.base_url, 4) as pool:
        return await play_episodes(pool, policy, num_episodes, 0, text=served.text, **kwargs)


def model(served: ServedEnvironment, script: Script, retries: int) -> LanguageModelPolicy:
    return LanguageModelPolicy("script", served.text, script, history="full", rules=ReplyRules(retries=retries))


def test_a_value_error_of_step_refuses_the_action_and_another_exception_is_a_fault(coins: ServedEnvironment) -> None:
    with coins.client() as client:
        client.reset()
        with pytest.raises(EnvironmentFault, match="take 1 to 10") as refused:
            client.step(take(coins, 11))
        with pytest.raises(EnvironmentFault, match=r"step\(\) raised KeyError") as failed:
            client.step(take(coins, 666))
        with pytest.raises(EnvironmentFault, match="Expecting value") as unread:
            client.step(take(coins, 502))
        assert client.step(take(coins, 10)).done

    validities = [one.value.validity for one in (refused, failed, unread)]
    assert validities == ["refused", "invalid", "invalid"]
    assert is_refused_action(refused.value)
    assert not is_refused_action(failed.value)


async def test_a_fault_makes_the_episode_invalid_with_its_reason(coins: ServedEnvironment) -> None:
    (episode,) = await play(coins, model(coins, Script("4", "666"), retries=2))

    assert (episode.outcome, episode.reason) == ("invalid", "step: step() raised KeyError: 'coins'")


async def test_a_refused_reply_ends_the_episode_as_unparseable(coins: ServedEnvironment) -> None:
    (episode,) = await play(coins, model(coins, Script("4", "7"), retries=0))

    assert (episode.outcome, episode.num_steps, episode.total_reward) == ("unparseable", 1, 0.0)
    assert episode.reason == "the environment refused the action: coins=7: take 1 to 6"
    assert (episode.num_replies, episode.num_unparseable_replies) == (2, 1)


async def test_a_retry_shows_the_reason_and_the_episode_goes_on(coins: ServedEnvironment) -> None:
    script = Script("4", "7", "no idea", "6")
    (episode,) = await play(coins, model(coins, script, retries=2))

    assert (episode.outcome, episode.num_steps, episode.total_reward) == ("ended", 2, 1.0)
    assert (episode.num_replies, episode.num_unparseable_replies) == (4, 2)
    problems = [message["content"] for message in script.shown if message["role"] == "user"][2:]
    assert problems[0] == "the environment refused the action: coins=7: take 1 to 6"
    assert "names no" in problems[1]


async def test_retries_are_those_of_one_observation(coins: ServedEnvironment) -> None:
    (episode,) = await play(coins, model(coins, Script("11", "4", "7", "8"), retries=1))

    assert (episode.outcome, episode.num_steps) == ("unparseable", 1)
    assert "coins=8" in str(episode.reason)


async def test_random_play_draws_again(coins: ServedEnvironment) -> None:
    episodes = await play(coins, RandomPolicy(0, text=coins.text), 20)

    assert {episode.outcome for episode in episodes} == {"ended"}


async def test_another_policy_ends_its_episode(coins: ServedEnvironment) -> None:
    class Greedy:
        name = "greedy"

        def select_action(self, observation: Any) -> Any:
            return take(coins, 11)

    (episode,) = await play(coins, Greedy())

    assert (episode.outcome, episode.num_steps) == ("unparseable", 0)
    assert "coins=11" in str(episode.reason)


async def test_a_recorded_turn_without_effect_has_no_action(coins: ServedEnvironment) -> None:
    recorder = EpisodeRecorder(EpisodeSource(environment="coins", policy="script"), coins.text)
    await play(coins, model(coins, Script("4", "7", "6"), retries=1), observers=[recorder])

    (episode,) = recorder.episodes
    assert [turn.action for turn in episode.turns] == [{"coins": 4}, None, {"coins": 6}]
    assert [turn.reward for turn in episode.turns] == [0.0, None, 1.0]


async def test_a_recording_of_random_play_has_the_actions_that_counted_alone(coins: ServedEnvironment) -> None:
    recorder = EpisodeRecorder(EpisodeSource(environment="coins", policy="random"), coins.text)
    episodes = await play(coins, RandomPolicy(0, text=coins.text), 6, observers=[recorder])

    assert [len(episode.turns) for episode in sorted(recorder.episodes, key=lambda one: one.seed or 0)] == [
        episode.num_steps for episode in episodes
    ]
    for episode in recorder.episodes:
        assert sum(int(turn.action["coins"]) for turn in episode.turns if turn.action) == 10
        assert [turn.continues for turn in episode.turns] == [False] + [True] * (len(episode.turns) - 1)
        assert all([one["role"] for one in turn.shown][-1] == "user" for turn in episode.turns)
        assert all(len(turn.shown) == 1 for turn in episode.turns[1:])
