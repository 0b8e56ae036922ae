"""A pool's environments: one session where they may share it, one each where not, and the same answers either way."""

import asyncio
from typing import ClassVar

import pytest

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.errors import EnvironmentFault, EpisodeOver, InvalidMessage, OpenEnvError, SessionGone, SessionLost
from openenv.core.http_env_client import HTTPEnvClient
from openenv.core.session_pool import SessionPool
from tests.core.counting_env import (
    CountAction,
    CountEnv,
    CountingEnvironment,
    CountObservation,
    CountState,
    InlineAsyncEnvironment,
    InlineEnvironment,
    ProcessEnvironment,
)
from tests.core.cutting_proxy import CuttingProxy
from tests.core.env_server.probes import wait_until


class CountHttpEnv(HTTPEnvClient[CountAction, CountObservation, CountState]):
    """The client over plain HTTP."""


class Alone(InlineEnvironment):
    """Cannot be there twice in a process, and so in a session."""

    SUPPORTS_CONCURRENT_SESSIONS = False


SHARED = [InlineEnvironment, InlineAsyncEnvironment]


@pytest.mark.parametrize(
    ("environment", "client", "num_sessions"),
    [*((environment, CountEnv, 1) for environment in SHARED), (CountingEnvironment, CountEnv, 3),
     (ProcessEnvironment, CountEnv, 3), (InlineEnvironment, CountHttpEnv, 3)],
)  # fmt: skip
async def test_environments_share_a_session_where_they_would_wait_for_one_another_anyway(
    serving, environment, client, num_sessions
):
    app = create_app(environment)
    async with SessionPool(client, serving(app), 3) as pool:
        first = await pool.reset({index: {"seed": index} for index in range(3)})
        assert len(app.state.sessions) == num_sessions
        then = await pool.step({2: CountAction(amount=5), 0: CountAction(amount=1)})
    assert [first[index].observation.total for index in range(3)] == [0, 0, 0]
    assert len({first[index].observation.draw for index in range(3)}) == 3
    assert {index: (result.observation.total, result.reward) for index, result in then.items()} == {
        2: (5, 5.0),
        0: (1, 1.0),
    }
    assert len(app.state.sessions) == 0


class Counted(CountingEnvironment):
    """Reports how many of it were made."""

    made: ClassVar[list[object]] = []

    def __init__(self) -> None:
        super().__init__()
        self.made.append(self)


async def test_to_learn_that_environments_do_not_share_a_session_costs_one_of_them(serving):
    Counted.made.clear()
    async with SessionPool(CountEnv, serving(create_app(Counted)), 8):
        assert len(Counted.made) == 8 + 1


@pytest.mark.parametrize("environment", SHARED)
async def test_what_fails_in_one_is_its_own(serving, environment):
    async with SessionPool(CountEnv, serving(create_app(environment)), 4) as pool:
        await pool.reset({index: {"seed": 1} for index in range(4)})
        results = await pool.step(
            {
                0: CountAction(amount=1),
                1: CountAction(amount=1, mischief="raise"),
                2: CountAction.model_construct(amount=13, mischief=""),
                3: CountAction(amount=10),
            }
        )
        assert results[0].observation.total == 1
        assert isinstance(results[1], EnvironmentFault)
        assert isinstance(results[2], InvalidMessage)
        assert results[3].done
        results = await pool.step({3: CountAction(amount=1), 1: CountAction(amount=2)})
        assert isinstance(results[3], EpisodeOver)
        assert results[1].observation.total == 2
        assert (await pool.reset({3: {"start": 4}}))[3].observation.total == 4
        assert isinstance((await pool.reset({3: {"strat": 4}}))[3], InvalidMessage)


async def test_a_shared_session_that_is_gone_is_opened_again_by_a_reset(serving):
    app = create_app(InlineEnvironment, config=ServerConfig(reconnect_grace_s=0.1))
    proxy = CuttingProxy(serving(app))
    async with SessionPool(CountEnv, proxy.url, 2) as pool:
        await pool.reset({0: {}, 1: {}})
        proxy.cut()
        await asyncio.to_thread(wait_until, lambda: len(app.state.sessions) == 0)
        results = await pool.step({0: CountAction(amount=1)})
        assert isinstance(results[0], SessionGone | SessionLost)
        assert (await pool.reset({0: {}}))[0].observation.total == 0
        results = await pool.step({0: CountAction(amount=1), 1: CountAction(amount=1)})
        assert results[0].observation.total == 1
        assert isinstance(results[1], OpenEnvError)
    proxy.close()


async def test_a_pool_that_is_cancelled_while_it_connects_leaves_no_session(serving):
    app = create_app(CountingEnvironment, config=ServerConfig(max_sessions=2, max_queue=1))
    connecting = asyncio.ensure_future(SessionPool(CountEnv, serving(app), 3, may_share=False).__aenter__())
    await asyncio.to_thread(wait_until, lambda: len(app.state.sessions) == 2)
    connecting.cancel()
    with pytest.raises(asyncio.CancelledError):
        await connecting
    await asyncio.to_thread(wait_until, lambda: len(app.state.sessions) == 0)


async def test_an_environment_that_cannot_be_there_twice_is_refused_as_ever(serving):
    with pytest.raises(OpenEnvError, match="capacity"):
        async with SessionPool(CountEnv, serving(create_app(Alone)), 2):
            pass
