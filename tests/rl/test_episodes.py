"""Episodes over a pool: each session takes the next one, and a failure ends one episode only."""

from typing import Any

from openenv.core.client_types import StepResult
from openenv.core.errors import EnvironmentFault, OpenEnvError
from openenv.rl.episodes import Decision, play
from tests.rl.echo_game import EchoPool, SayAction


class Notary:
    """Says `red` always, gives up the episodes it is told to, and notes what happens."""

    def __init__(self, given_up: frozenset[int] = frozenset()) -> None:
        self.given_up = given_up
        self.steps: dict[int, int] = {}
        self.ended: list[int] = []
        self.broken: list[int] = []
        self.most_at_once = 0

    async def act(self, decisions: list[Decision]) -> list[Any]:
        self.most_at_once = max(self.most_at_once, len(decisions))
        return [None if decision.episode in self.given_up else SayAction(word="red") for decision in decisions]

    def stepped(self, episode: int, result: StepResult[Any]) -> None:
        self.steps[episode] = self.steps.get(episode, 0) + 1
        if result.done:
            self.ended.append(episode)

    def failed(self, episode: int, error: OpenEnvError) -> None:
        self.broken.append(episode)


def seeds(number: int) -> list[dict[str, int]]:
    return [{"seed": seed} for seed in range(number)]


async def test_every_episode_is_played_once_in_as_many_sessions_as_there_are() -> None:
    notary = Notary()
    await play(EchoPool(num_sessions=3, turns=2), seeds(10), notary)

    assert sorted(notary.ended) == list(range(10))
    assert set(notary.steps.values()) == {2}
    assert notary.most_at_once == 3


async def test_fewer_episodes_than_sessions_leave_sessions_alone() -> None:
    notary = Notary()
    await play(EchoPool(num_sessions=8), seeds(2), notary)

    assert sorted(notary.ended) == [0, 1]


async def test_no_episodes_are_played_at_once() -> None:
    await play(EchoPool(), [], Notary())


async def test_a_failure_ends_its_episode_and_frees_its_session() -> None:
    notary = Notary()
    await play(EchoPool(num_sessions=2, broken_seeds=frozenset({1, 2})), seeds(6), notary)

    assert notary.broken == [1, 2]
    assert sorted(notary.ended) == [0, 3, 4, 5]


async def test_a_reset_that_fails_ends_its_episode() -> None:
    class Faulty(EchoPool):
        async def reset(self, requests: Any) -> dict[int, Any]:
            results = await super().reset(requests)
            refused = EnvironmentFault("no table is free")
            return {index: refused if requests[index]["seed"] == 0 else result for index, result in results.items()}

    notary = Notary()
    await play(Faulty(num_sessions=1), seeds(3), notary)

    assert notary.broken == [0]
    assert notary.ended == [1, 2]


async def test_an_episode_given_up_is_not_stepped() -> None:
    notary = Notary(given_up=frozenset({0, 3}))
    await play(EchoPool(num_sessions=2), seeds(5), notary)

    assert sorted(notary.ended) == [1, 2, 4]
    assert set(notary.steps) == {1, 2, 4}
