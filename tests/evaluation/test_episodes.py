"""The episode runner: each session takes the next episode, and a failure ends one episode only."""

import asyncio
import random
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import pytest

from openenv.core.client_types import StepResult
from openenv.core.errors import EnvironmentFault, OpenEnvError
from openenv.evaluation.episodes import ConcurrentRunner, EpisodeRunner, FreeSessions, PendingAction
from tests.rl.echo_game import EchoPool, SayAction


class RecordingPlayer:
    """Always replies `red`, gives up the given episodes, and records what happens."""

    def __init__(self, given_up: frozenset[int] = frozenset()) -> None:
        self.given_up = given_up
        self.steps: dict[int, int] = {}
        self.ended: list[int] = []
        self.failed: list[int] = []
        self.stopped: list[int] = []
        self.turns: list[list[int]] = []

    async def act(self, pending: list[PendingAction]) -> list[Any]:
        self.turns.append([turn.episode for turn in pending])
        return [None if turn.episode in self.given_up else SayAction(word="red") for turn in pending]

    def on_result(self, episode: int, result: StepResult[Any]) -> None:
        self.steps[episode] = self.steps.get(episode, -1) + 1  # the first result is the reset's
        if result.done:
            self.ended.append(episode)

    def on_failure(self, episode: int, error: OpenEnvError) -> None:
        self.failed.append(episode)

    def on_step_limit(self, episode: int) -> None:
        self.stopped.append(episode)


def seeds(number: int) -> list[dict[str, int]]:
    return [{"seed": seed} for seed in range(number)]


async def test_every_episode_is_played_once_in_as_many_sessions_as_there_are() -> None:
    player = RecordingPlayer()
    await EpisodeRunner(EchoPool(num_sessions=3, turns=2), player).run(seeds(10))

    assert sorted(player.ended) == list(range(10))
    assert set(player.steps.values()) == {2}
    assert max(map(len, player.turns)) == 3


async def test_running_episodes_act_together_in_the_order_of_their_numbers() -> None:
    player = RecordingPlayer(given_up=frozenset({1, 4}))
    await EpisodeRunner(EchoPool(num_sessions=3, turns=2), player).run(seeds(8))

    assert all(turn == sorted(turn) for turn in player.turns)


async def test_an_episode_does_not_depend_on_the_number_of_sessions() -> None:
    words: list[dict[int, list[str]]] = []
    for num_sessions in (1, 5):
        pool = EchoPool(num_sessions=num_sessions)
        await EpisodeRunner(pool, RecordingPlayer()).run(seeds(6))
        words.append(pool.first_words)

    assert words[0] == words[1]


async def test_fewer_episodes_than_sessions_leave_sessions_unused() -> None:
    player = RecordingPlayer()
    await EpisodeRunner(EchoPool(num_sessions=8), player).run(seeds(2))

    assert sorted(player.ended) == [0, 1]


async def test_a_part_of_the_pool_can_be_used() -> None:
    player = RecordingPlayer()
    await EpisodeRunner(EchoPool(num_sessions=8), player, num_sessions=1).run(seeds(3))

    assert max(map(len, player.turns)) == 1
    assert player.ended == [0, 1, 2]


async def test_no_episodes_end_the_run_at_once() -> None:
    player = RecordingPlayer()
    await EpisodeRunner(EchoPool(), player).run([])

    assert player.turns == []


async def test_resets_may_be_produced_while_episodes_are_played() -> None:
    player = RecordingPlayer()
    lazy = ({"seed": seed} for seed in range(100) if len(player.ended) < 3)
    await EpisodeRunner(EchoPool(num_sessions=1), player).run(lazy)

    assert player.ended == [0, 1, 2]


async def test_a_failure_ends_its_episode_and_frees_its_session() -> None:
    player = RecordingPlayer()
    await EpisodeRunner(EchoPool(num_sessions=2, broken_seeds=frozenset({1, 2})), player).run(seeds(6))

    assert player.failed == [1, 2]
    assert sorted(player.ended) == [0, 3, 4, 5]


class FullOfEarlyEnds(EchoPool):
    """Refuses the reset with seed 0; the episode with seed 1 is done at its reset."""

    async def reset(self, requests: Mapping[int, Mapping[str, Any]]) -> dict[int, Any]:
        results = await super().reset(requests)
        early = {0: EnvironmentFault("no table is free"), 1: StepResult(None, 1.0, True)}
        return {index: early.get(requests[index]["seed"], result) for index, result in results.items()}


async def test_an_episode_that_ends_at_its_reset_frees_its_session() -> None:
    player = RecordingPlayer()
    await EpisodeRunner(FullOfEarlyEnds(num_sessions=1), player).run(seeds(4))

    assert player.failed == [0]
    assert player.ended == [1, 2, 3]
    assert player.steps[1] == 0


async def test_an_episode_that_is_given_up_takes_no_step() -> None:
    player = RecordingPlayer(given_up=frozenset({0, 3}))
    await EpisodeRunner(EchoPool(num_sessions=2), player).run(seeds(5))

    assert sorted(player.ended) == [1, 2, 4]
    assert {episode: steps for episode, steps in player.steps.items() if steps} == {1: 2, 2: 2, 4: 2}


async def test_an_episode_is_stopped_at_the_step_limit() -> None:
    player = RecordingPlayer()
    await EpisodeRunner(EchoPool(num_sessions=2, turns=9), player, max_steps=3).run(seeds(4))

    assert sorted(player.stopped) == [0, 1, 2, 3]
    assert set(player.steps.values()) == {3}
    assert player.ended == []


class UnevenPool(EchoPool):
    """Its sessions need times of their own, drawn at random, and one of them waits until all other episodes ended."""

    def __init__(self, others: int, **settings: Any) -> None:
        super().__init__(**settings)
        self.others = others
        self.others_have_ended = asyncio.Event()
        self.delays = random.Random(0)

    async def step(self, actions: Mapping[int, Any]) -> dict[int, Any]:
        await asyncio.sleep(0.01 * self.delays.random())
        if 0 in actions:
            await self.others_have_ended.wait()
        results = await super().step(actions)
        self.others -= sum(result.done for result in results.values())
        if self.others == 0:
            self.others_have_ended.set()
        return results


async def test_concurrent_episodes_do_not_wait_for_one_that_is_slow() -> None:
    player = RecordingPlayer()
    pool = UnevenPool(8, num_sessions=3, turns=4)

    async with asyncio.timeout(20):
        await ConcurrentRunner(FreeSessions(pool), player).run(seeds(9))

    assert player.ended[-1] == 0
    assert sorted(player.ended) == list(range(9))
    assert set(player.steps.values()) == {4}
    assert {len(turn) for turn in player.turns} == {1}


@pytest.mark.parametrize(
    ("settings", "given_up", "max_steps", "ended", "failed", "stopped"),
    [
        ({}, set(), None, 6, [], []),
        ({"broken_seeds": frozenset({1, 2})}, set(), None, 4, [1, 2], []),
        ({}, {0, 3}, None, 4, [], []),
        ({"turns": 9}, set(), 3, 0, [], [0, 1, 2, 3, 4, 5]),
    ],
)
async def test_concurrent_episodes_have_the_ends_of_those_that_act_together(
    settings: dict[str, Any], given_up: set[int], max_steps: int | None, ended: int, failed: Any, stopped: Any
) -> None:
    for runner in (EpisodeRunner, ConcurrentRunner):
        player = RecordingPlayer(frozenset(given_up))
        pool = EchoPool(num_sessions=2, **settings)
        sessions: Any = FreeSessions(pool) if runner is ConcurrentRunner else pool
        await runner(sessions, player, max_steps=max_steps).run(seeds(6))

        assert len(player.ended) == ended
        assert (sorted(player.failed), sorted(player.stopped)) == (failed, stopped)


async def test_the_episodes_of_the_first_runner_receive_the_free_sessions_first() -> None:
    pool, begun = EchoPool(num_sessions=2, turns=2), list[int]()
    reset = pool.reset

    async def noted(requests: Mapping[int, Mapping[str, Any]]) -> dict[int, Any]:
        begun.extend(keywords["seed"] for keywords in requests.values())
        return await reset(requests)

    vars(pool)["reset"] = noted
    sessions = FreeSessions(pool)
    runners = [ConcurrentRunner(sessions, RecordingPlayer()) for _ in range(2)]
    await asyncio.gather(runners[0].run(seeds(5)), runners[1].run({"seed": seed} for seed in range(50, 55)))

    assert begun[:5] == list(range(5))
    assert begun[5:] == list(range(50, 55))


async def test_what_the_player_raises_ends_a_concurrent_run() -> None:
    class Raises(RecordingPlayer):
        def on_failure(self, episode: int, error: OpenEnvError) -> None:
            raise error

    pool = EchoPool(broken_seeds=frozenset({2}))
    with pytest.raises(EnvironmentFault, match="the table broke"):
        await ConcurrentRunner(FreeSessions(pool), Raises()).run(seeds(4))


class DivergingPool(EchoPool):
    """A pool of a server that sends rewards as they are, NaN too."""

    async def step(self, actions: Mapping[int, Any]) -> Mapping[int, Any]:
        results = await super().step(actions)
        return {session: replace(result, reward=float("nan")) for session, result in results.items()}


@pytest.mark.finding("a reward that is no finite number is a fault, not a zero")
async def test_an_episode_with_a_reward_that_is_no_finite_number_is_a_failure() -> None:
    player = RecordingPlayer()
    await EpisodeRunner(DivergingPool(num_sessions=2, turns=2), player).run(seeds(4))

    assert sorted(player.failed) == [0, 1, 2, 3]
    assert player.ended == []
