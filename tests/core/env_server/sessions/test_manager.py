"""The manager opens, forks and ends sessions, and leaves no slot taken behind."""

import asyncio
import shutil
import threading
import time
from typing import ClassVar

import httpx
import orjson
import pytest
from websockets.sync.client import connect

from openenv.core.env_server import ServerConfig, create_app
from openenv.core.env_server.observability.log_context import EpisodeContext, current_episode
from openenv.core.env_server.sessions.session import Session
from openenv.core.errors import (
    CapacityReached,
    EnvironmentFault,
    FactoryFault,
    InvalidMessage,
    SessionFault,
    TimeLimitExceeded,
)
from openenv.core.wire.server_codec import SessionRequest
from openenv.hosting.local_process import LocalServer
from tests.core.counting_env import CountEnv, CountingEnvironment, SavingEnvironment
from tests.core.env_server.probes import num_sessions, wait_until


async def test_a_caller_that_was_queued_when_the_server_began_to_stop_gets_no_session():
    manager = create_app(CountingEnvironment, config=ServerConfig(max_sessions=1, max_queue=1)).state.sessions
    session = await manager.open()
    queued = asyncio.create_task(manager.open())
    await asyncio.sleep(0)
    await manager.drain()
    await manager.end(session)

    with pytest.raises(CapacityReached, match="is stopping"):
        await queued
    assert manager.capacity.num_acquired == 0
    await manager.end_all()


async def test_branches_of_a_session_that_ends_while_it_is_forked_end_with_it():
    is_loading, may_load = threading.Event(), threading.Event()

    class SlowToLoad(SavingEnvironment):
        def load_state(self, state: bytes) -> None:
            is_loading.set()
            may_load.wait(10)
            super().load_state(state)

    manager = create_app(SlowToLoad).state.sessions
    session = await manager.open()
    await session.respond(SessionRequest("reset", {}))
    forking = asyncio.create_task(manager.fork(session, 2))
    await asyncio.to_thread(is_loading.wait, 10)
    await manager.end(session)
    may_load.set()

    with pytest.raises(SessionFault, match="has ended while it was forked"):
        await forking
    assert manager.capacity.num_acquired == 0
    await manager.end_all()


async def test_a_client_that_leaves_while_its_environment_is_made_leaves_the_shared_thread_to_the_others():
    is_being_made, may_be_made = threading.Event(), threading.Event()

    class OneThread(CountingEnvironment):
        REQUIRES_SINGLE_THREAD_EXECUTOR = True

        def __init__(self) -> None:
            super().__init__()
            is_being_made.set()
            may_be_made.wait(10)

    may_be_made.set()
    manager = create_app(OneThread, config=ServerConfig(max_sessions=2)).state.sessions
    session = await manager.open()
    is_being_made.clear()
    may_be_made.clear()
    leaving = asyncio.create_task(manager.open())
    await asyncio.to_thread(is_being_made.wait, 10)
    leaving.cancel()
    may_be_made.set()
    with pytest.raises(asyncio.CancelledError):
        await leaving

    await session.respond(SessionRequest("reset", {"start": 3}))
    assert b'"total":3' in (await session.respond(SessionRequest("state", {}))).data
    await manager.end_all()


async def test_a_description_leaves_the_idle_time_of_the_session_that_gives_it():
    manager = create_app(CountingEnvironment).state.sessions
    session: Session = await manager.open()
    last_activity = session.last_activity
    await manager.describe("get_metadata", [])

    assert session.last_activity == last_activity
    await manager.end_all()


def test_an_unexpected_failure_is_an_answer_also_for_a_request_without_an_id(serving, tmp_path):
    folder = tmp_path / "records"
    url = serving(create_app(CountingEnvironment, config=ServerConfig(record_dir=folder)))
    with connect(url.replace("http", "ws") + "/ws") as socket:
        socket.send('{"type": "reset"}')
        socket.recv()
        shutil.rmtree(folder)
        socket.send('{"type": "step", "data": {"amount": 1}}')
        answer = orjson.loads(socket.recv(timeout=10))

    assert (answer["type"], answer["data"]["code"]) == ("error", "EXECUTION_ERROR")
    assert "see its log" in answer["data"]["message"]


def test_of_a_vector_that_cannot_be_made_whole_every_environment_is_closed(serving):
    made, closed = [], []

    class ThirdFails(CountingEnvironment):
        def __init__(self) -> None:
            super().__init__()
            if len(made) == 3:
                raise OSError("no device left")
            made.append(self)

        def close(self) -> None:
            closed.append(self)

    url = serving(create_app(ThirdFails))
    with pytest.raises(FactoryFault, match="no device left"):
        CountEnv(url).vector(5)

    assert len(closed) == len(made) == 3


class OnOneThread(SavingEnvironment):
    """Its steps of amount 5 wait for an event."""

    REQUIRES_SINGLE_THREAD_EXECUTOR = True
    has_begun, may_end = threading.Event(), threading.Event()
    closed: ClassVar[list[int]] = []

    def step(self, action, **keywords):
        if action.amount == 5:
            self.has_begun.set()
            self.may_end.wait(10)
        return super().step(action, **keywords)

    def close(self) -> None:
        self.closed.append(self.state.total)


@pytest.fixture
async def on_one_thread():
    OnOneThread.has_begun.clear()
    OnOneThread.may_end.clear()
    OnOneThread.closed.clear()
    config = ServerConfig(max_sessions=3, step_timeout_s=0.5, reset_timeout_s=30)
    manager = create_app(OnOneThread, config=config).state.sessions
    yield manager
    OnOneThread.may_end.set()
    await manager.end_all()


async def _two_sessions(manager, **resets):
    sessions = [await manager.open(), await manager.open()]
    for session in sessions:
        await session.respond(SessionRequest("reset", resets))
    return sessions


async def test_waiting_for_the_step_of_another_session_counts_toward_no_limit(on_one_thread):
    first, second = await _two_sessions(on_one_thread)
    slow = asyncio.create_task(first.respond(SessionRequest("step", {"amount": 5})))
    await asyncio.to_thread(OnOneThread.has_begun.wait, 10)
    hurried = asyncio.create_task(second.respond(SessionRequest("step", {"amount": 1}, timeout_s=0.05)))
    asyncio.get_running_loop().call_later(0.2, OnOneThread.may_end.set)

    assert b'"total":5' in (await slow).data
    assert b'"total":1' in (await hurried).data


async def test_sessions_of_a_thread_that_a_step_blocks_end_at_once_and_close_when_it_returns(on_one_thread):
    first, second = await _two_sessions(on_one_thread, start=3)
    with pytest.raises(TimeLimitExceeded):
        await first.respond(SessionRequest("step", {"amount": 5}))
    async with asyncio.timeout(5):  # a reset, whose limit is 30 s, would wait for the thread
        await on_one_thread.end(second)
    third = await on_one_thread.open()
    await third.respond(SessionRequest("reset", {"start": 4}))

    assert OnOneThread.closed == []
    OnOneThread.may_end.set()
    await asyncio.to_thread(wait_until, lambda: OnOneThread.closed == [3])
    await first.respond(SessionRequest("reset", {}))
    await asyncio.to_thread(wait_until, lambda: sorted(OnOneThread.closed) == [3, 8])


async def test_a_failed_save_is_counted_and_leaves_its_label_on_no_later_line():
    class CannotSave(SavingEnvironment):
        labels: ClassVar[list[str]] = []

        def save_state(self) -> bytes:
            self.labels.append(current_episode.get())
            raise ValueError("the disk is full")

    manager = create_app(CannotSave).state.sessions
    session = await manager.open()
    await session.respond(SessionRequest("reset", {"episode_id": "mine"}))
    with pytest.raises(EnvironmentFault, match="the disk is full"):
        await manager.save(session)

    assert CannotSave.labels == [EpisodeContext(session.id, "mine")]
    assert current_episode.get() is None
    assert b'openenv_errors_total{code="EXECUTION_ERROR"} 1.0' in manager.metrics.text()
    await manager.end_all()


@pytest.mark.finding("a close() that raises or hangs harms its own session alone")
def test_an_environment_that_takes_long_to_close_delays_no_other_sessions_end(serving):
    together = threading.Barrier(3)

    class ClosesTogether(CountingEnvironment):
        def close(self) -> None:
            together.wait(4)  # in turn, each would wait until its limit

    config = ServerConfig(idle_timeout_s=0.2, reconnect_grace_s=0.2)
    url = serving(create_app(ClosesTogether, config=config))
    with CountEnv(url) as first, CountEnv(url) as second, CountEnv(url) as third:
        for env in (first, second, third):
            env.connect()
        wait_until(lambda: num_sessions(url) == 0)

    assert not together.broken


@pytest.mark.process
@pytest.mark.finding("a close() that raises or hangs harms its own session alone")
def test_a_close_that_never_returns_stops_an_inline_server_for_seconds_only():
    with LocalServer("tests.core.counting_env", ["--serve", "NeverCloses"]) as server:
        with CountEnv(server.base_url) as env:
            env.reset()
        with CountEnv(server.base_url, message_timeout_s=30) as env:  # far below the limit of a reset
            assert env.reset(start=2).observation.total == 2


def test_the_time_in_which_an_environment_is_made_is_no_idle_time_of_its_session(serving):
    class SlowlyMade(CountingEnvironment):
        def __init__(self) -> None:
            super().__init__()
            time.sleep(1.2)

    url = serving(
        create_app(SlowlyMade, config=ServerConfig(execution="thread", idle_timeout_s=1, reconnect_grace_s=0))
    )
    with CountEnv(url) as env:
        env.connect()
        time.sleep(0.3)

        assert env.reset(start=2).observation.total == 2


@pytest.mark.finding("sessions opened over HTTP have an idle limit of their own")
def test_a_session_that_was_opened_over_http_has_an_idle_limit_of_its_own(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_sessions=2, http_idle_timeout_s=0.3)))
    with CountEnv(url) as env:
        env.reset(start=3)
        first = httpx.post(f"{url}/reset", headers={"X-Session-Id": "new"})
        assert (first.status_code, num_sessions(url)) == (200, 2)
        wait_until(lambda: num_sessions(url) == 1)

        assert env.state().total == 3
        assert httpx.post(f"{url}/reset", headers={"X-Session-Id": "new"}).status_code == 200


@pytest.mark.finding("sessions opened over HTTP have an idle limit of their own")
def test_a_connection_keeps_a_session_that_was_opened_over_http(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(http_idle_timeout_s=0.2, reconnect_grace_s=0.2)))
    opened = httpx.post(f"{url}/reset", headers={"X-Session-Id": "new"}).headers["x-session-id"]
    with connect(f"{url.replace('http', 'ws')}/ws?session_id={opened}") as websocket:
        httpx.post(f"{url}/reset", headers={"X-Session-Id": "new"})
        wait_until(lambda: num_sessions(url) == 1)  # the other one has reached its limit
        websocket.send('{"type": "state"}')

        assert orjson.loads(websocket.recv(timeout=20))["type"] == "state"


@pytest.mark.finding("the environments of one session are limited")
def test_the_environments_of_one_session_are_limited(serving):
    url = serving(create_app(CountingEnvironment, config=ServerConfig(max_envs_per_session=4)))
    with pytest.raises(InvalidMessage, match="num_envs=5 is above this server's limit of 4: open several sessions"):
        CountEnv(url).vector(5)
    with CountEnv(url).vector(8, num_sessions=2) as envs:
        assert envs.reset()[0]["total"].shape == (8,)
