"""Behind the gateway of a deployment, run here by the real programs, each session stays with its server or is lost."""

import asyncio
import os
import signal
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from pathlib import Path
from typing import get_args

import httpx
import pytest

from openenv.core.errors import CapacityReached, ServerUnreachable, SessionGone, SessionLost
from openenv.core.http_env_client import HTTPEnvClient
from openenv.envs.echo_env import EchoAction, EchoEnv, EchoObservation, EchoState
from openenv.hosting.kubernetes.gateway_config import Proxy
from openenv.hosting.local_process import LocalServer
from tests.core.env_server.probes import exit_code, num_sessions, wait_until
from tests.hosting.kubernetes.gateways import RunningGateway

pytestmark = pytest.mark.process

PROXIES = get_args(Proxy)
OPTIONS = ["--drain-timeout-s", "120", "--reconnect-grace-s", "4"]


class HTTPEchoEnv(HTTPEnvClient[EchoAction, EchoObservation, EchoState]):
    """Plays over plain HTTP."""


class Player:
    """A session, and what its state must be as long as it plays its own episode."""

    def __init__(self, number: int, env: EchoEnv) -> None:
        self.env = env
        self._episode_id, self._messages = f"episode {number}", []

    @property
    def replica(self) -> str:
        """The server of the session."""
        return str(self.env.session_id).partition(".")[0]

    async def start(self) -> None:
        """Begin the episode."""
        await self.env.reset(episode_id=self._episode_id)

    async def play(self) -> None:
        """Take a step, and check that it was one of this episode."""
        self._messages.append(f"{self._episode_id}, step {len(self._messages)}")
        await self.env.step(EchoAction(message=self._messages[-1]))
        state = await self.env.state()
        assert (state.episode_id, state.step_count, state.last_message) == (
            self._episode_id, len(self._messages), self._messages[-1],
        )  # fmt: skip


@pytest.fixture
def servers() -> Iterator[dict[str, LocalServer]]:
    """Two servers by their names."""
    with ExitStack() as stack:
        yield {
            name: stack.enter_context(
                LocalServer("openenv.envs.echo_env.server.app", OPTIONS, env_vars={"OPENENV_REPLICA": name})
            )
            for name in ("echo-env-0", "echo-env-1")
        }


@pytest.fixture(params=PROXIES)
def gateway(
    request: pytest.FixtureRequest, servers: dict[str, LocalServer], tmp_path: Path
) -> Iterator[RunningGateway]:
    """Their gateway."""
    with RunningGateway(request.param, {name: one.base_url for name, one in servers.items()}, tmp_path) as running:
        yield running


def drain(server: LocalServer) -> None:
    """Let a server stop, and return when it opens no sessions any more."""
    os.kill(server.pid, signal.SIGTERM)
    wait_until(lambda: httpx.get(f"{server.base_url}/ready").status_code == 503)


def start_again(server: LocalServer) -> None:
    """Start a killed server at its former address."""
    server.restart()
    server.wait_for_ready()


def reset_when_healthy(env: HTTPEchoEnv, limit_s: float = 30.0) -> None:
    """Reset once the gateway has seen that the server, its only one, is there again: it asks once a second or so."""
    deadline = time.monotonic() + limit_s
    while True:
        try:
            env.reset()
            return
        except ServerUnreachable:
            assert time.monotonic() < deadline
            time.sleep(0.1)


async def all_of(*awaited):
    return await asyncio.gather(*awaited, return_exceptions=True)


async def test_each_of_200_sessions_stays_with_its_server_or_is_lost(gateway, servers):
    drained, killed = servers.values()
    async with AsyncExitStack() as stack:

        async def started(numbers: range) -> list[Player]:
            players = [Player(n, await stack.enter_async_context(EchoEnv(gateway.base_url))) for n in numbers]
            assert not any(await all_of(*(player.start() for player in players)))
            return players

        players = await started(range(200))
        shares = Counter(player.replica for player in players)
        assert shares == {name: num_sessions(server.base_url) for name, server in servers.items()}
        assert min(shares.values()) > 50
        assert not any(await all_of(*(player.play() for player in players)))

        await asyncio.to_thread(gateway.restart)  # all connections break
        assert not any(await all_of(*(player.play() for player in players)))

        drain(drained)
        late = await started(range(200, 220))
        assert {player.replica for player in late} == {"echo-env-1"}
        players += late
        await asyncio.to_thread(gateway.restart)
        assert not any(await all_of(*(player.play() for player in players)))

        os.kill(killed.pid, signal.SIGKILL)
        outcomes = await all_of(*(player.play() for player in players))
        for player, outcome in zip(players, outcomes, strict=True):
            assert outcome is None if player.replica == "echo-env-0" else isinstance(outcome, SessionLost)

        start_again(killed)
        for player in players:
            if player.replica == "echo-env-0":
                await player.play()
            else:
                with pytest.raises(SessionGone):
                    await EchoEnv(gateway.base_url, session_id=player.env.session_id).connect()
        assert num_sessions(killed.base_url) == 0
    assert exit_code(drained) == 0


def test_sessions_over_plain_http_stay_with_their_server_too(gateway, servers):
    drained, killed = servers.values()
    players = [HTTPEchoEnv(gateway.base_url) for _ in range(20)]
    for number, env in enumerate(players):
        env.reset(episode_id=str(number))
    stay = [env for env in players if env.session_id.startswith("echo-env-0.")]
    assert 0 < len(stay) < len(players)
    drain(drained)
    os.kill(killed.pid, signal.SIGKILL)

    for number, env in enumerate(players):
        if env in stay:
            env.step(EchoAction(message="a"))
            assert (env.state().episode_id, env.state().step_count) == (str(number), 1)
        else:
            with pytest.raises(ServerUnreachable):
                env.step(EchoAction(message="a"))
    start_again(killed)
    for env in set(players) - set(stay):
        with pytest.raises(SessionGone):
            env.step(EchoAction(message="a"))
    late = HTTPEchoEnv(gateway.base_url)
    reset_when_healthy(late)
    assert late.session_id.startswith("echo-env-1.")
    for env in [*players, late]:
        env.close()

    assert num_sessions(killed.base_url) == 0
    assert exit_code(drained) == 0


@pytest.mark.parametrize("path", ["/reset", "/step", "/state"])
def test_a_verb_over_plain_http_names_its_session(gateway, path):
    refused = httpx.request("GET" if path == "/state" else "POST", f"{gateway.base_url}{path}", json={})

    assert refused.status_code == 400
    assert "X-Session-Id: new" in refused.json()["message"]


def test_a_caller_that_finds_all_servers_stopping_is_refused(gateway, servers):
    held = [EchoEnv(server.base_url) for server in servers.values()]
    for env, server in zip(held, servers.values(), strict=True):
        env.reset()
        drain(server)

    with pytest.raises((CapacityReached, ServerUnreachable)):
        EchoEnv(gateway.base_url).reset()
    for env in held:
        env.close()
