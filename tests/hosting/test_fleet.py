"""Servers of one environment as processes share the sessions, and one that ends is started again."""

import os
import signal

import pytest

from openenv.core.errors import NotReady, SessionGone
from openenv.core.session_pool import SessionPool
from openenv.envs.echo_env import EchoAction, EchoEnv
from openenv.hosting.fleet import Fleet
from openenv.hosting.local_process import LocalServer
from tests.core.counting_env import CountAction, CountEnv
from tests.core.env_server.probes import is_running, num_sessions, wait_until

pytestmark = pytest.mark.process


def servers(number: int, module: str = "openenv.envs.echo_env.server.app") -> list[LocalServer]:
    return [LocalServer(module, ["--reconnect-grace-s", "20"]) for _ in range(number)]


@pytest.mark.parametrize(("may_share", "sessions"), [(True, [1, 1, 1]), (False, [3, 2, 2])])
async def test_a_pool_divides_its_sessions_among_the_servers_in_turn(may_share, sessions):
    with Fleet(servers(3)) as fleet:
        async with SessionPool(EchoEnv, fleet.base_urls, 7, may_share=may_share) as pool:
            assert [num_sessions(url) for url in fleet.base_urls] == sessions
            await pool.reset({number: {"seed": number} for number in range(7)})
            results = await pool.step({number: EchoAction(message=f"{number}") for number in (6, 0, 4)})

            assert {number: result.observation.echoed_message for number, result in results.items()} == {
                6: "6", 0: "0", 4: "4",
            }  # fmt: skip


async def test_a_server_that_ends_is_started_again_and_its_sessions_alone_are_lost():
    own = servers(2, "tests.core.counting_env")
    with Fleet(own) as fleet:
        async with SessionPool(CountEnv, fleet.base_urls, 4, may_share=False) as pool:
            await pool.reset({number: {} for number in range(4)})
            os.kill(own[1].pid, signal.SIGKILL)
            results = await pool.step({number: CountAction(amount=5) for number in range(4)})

            assert [isinstance(results[number], SessionGone) for number in range(4)] == [False, True, False, True]
            assert fleet.num_ended == 1
            again = await pool.reset({1: {}, 3: {}})
            assert {result.observation.total for result in again.values()} == {0}
            assert (await pool.step({0: CountAction(amount=1)}))[0].observation.total == 6


def test_no_server_outlives_the_fleet_also_where_one_does_not_start():
    own = servers(2)
    with Fleet(own):
        pids = [server.pid for server in own]
    wait_until(lambda: not any(map(is_running, pids)))
    started = LocalServer("openenv.envs.echo_env.server.app")
    with pytest.raises(NotReady, match="no_such_module"), Fleet([started, LocalServer("no_such_module")]):
        pass

    with pytest.raises(RuntimeError, match="no server runs"):
        _ = started.pid
