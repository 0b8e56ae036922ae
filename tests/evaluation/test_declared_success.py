"""An environment declares what a success is; without a declaration there is a mean return and no rate."""

import asyncio
import io
import math
from typing import Any, ClassVar

import pytest
from rich.console import Console

from openenv.auto.environment import ServedEnvironment, named_environment
from openenv.core.client_types import StepResult
from openenv.core.env_server import create_app
from openenv.core.env_server.interfaces import Environment
from openenv.core.env_server.types import Action, Observation, State
from openenv.core.errors import OpenEnvError
from openenv.core.outcomes import declared_success
from openenv.core.session_pool import SessionPool
from openenv.evaluation import Summary, evaluate
from openenv.evaluation.tables import medal_table
from openenv.policies.baselines import RandomPolicy
from tests.conftest import Serving


class Move(Action):
    """Forward is the only way."""


class Adventure(Environment[Move, Observation, State]):
    """A shaped reward of 0.5, and a goal that a fourth of the seeds reach, worth 10."""

    execution = "inline"

    SHARED: ClassVar[dict[str, Any]] = {"room": "cellar"}

    def __init__(self) -> None:
        self._seed = 0

    def reset(
        self, seed: int | None = None, episode_id: str | None = None, success: Any = None, **kwargs: Any
    ) -> Observation:
        self.success_return, self._seed = success, seed or 0
        first = Observation()
        vars(first)["metadata"] = self.SHARED
        return first

    def step(self, action: Move, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        return Observation(reward=10.5 if self._seed % 4 == 0 else 0.5, done=True)

    @property
    def state(self) -> State:
        return State()


@pytest.fixture
def adventure(serving: Serving) -> ServedEnvironment:
    url = serving(create_app(Adventure))
    return named_environment(url).served_at(url)


def played(served: ServedEnvironment, **reset: Any) -> Summary:
    policy = RandomPolicy(0, text=served.text)
    (summary,) = asyncio.run(
        evaluate(served.base_url, served.client, [policy], 8, 0, reset_kwargs=reset, text=served.text)
    )
    return summary


class Unrewarded(Adventure):
    """No step has a reward."""

    def step(self, action: Move, timeout_s: float | None = None, **kwargs: Any) -> Observation:
        return Observation(done=True)


@pytest.mark.finding("null is null: lost episodes and rewards that were not given")
def test_without_rewards_there_is_no_return(serving: Serving) -> None:
    url = serving(create_app(Unrewarded))
    summary = played(named_environment(url).served_at(url), success=1.0)

    assert math.isnan(summary.mean_return)
    assert (summary.num_lost, summary.win_rate) == (8, 0.0)
    table = Console(record=True, file=io.StringIO(), width=100)
    table.print(medal_table([summary]))
    assert "no return" in table.export_text()


@pytest.mark.finding("a success is what the environment declares")
def test_a_shaped_reward_is_no_success(adventure: ServedEnvironment) -> None:
    summary = played(adventure)

    assert (summary.mean_return, summary.declares_success) == (3.0, False)
    assert math.isnan(summary.win_rate)


@pytest.mark.parametrize(("success", "rate"), [(10.0, 0.25), (0.5, 1.0), (11, 0.0)])
@pytest.mark.finding("a success is what the environment declares")
def test_the_rate_counts_episodes_from_the_declared_return_on(
    adventure: ServedEnvironment, success: float, rate: float
) -> None:
    assert played(adventure, success=success).win_rate == rate


def test_the_caller_may_declare_another_return(adventure: ServedEnvironment) -> None:
    adventure.text.success_return = 0.5

    assert played(adventure, success=10.0).win_rate == 1.0


def test_a_declaration_that_is_no_number_is_named(adventure: ServedEnvironment) -> None:
    with adventure.client() as client, pytest.raises(OpenEnvError, match=r"success_return='ten': .* a finite number"):
        client.reset(success="ten")


async def test_each_episode_has_its_own_declaration(adventure: ServedEnvironment) -> None:
    wanted = {0: 10.0, 1: None, 2: 0.5}
    async with SessionPool(adventure.client_class, adventure.base_url, 3) as pool:
        results = await pool.reset({session: {"success": success} for session, success in wanted.items()})

    declared = {}
    for session, result in results.items():
        assert isinstance(result, StepResult)
        declared[session] = declared_success(result.observation)
    assert declared == wanted
    assert Adventure.SHARED == {"room": "cellar"}
