"""An environment in an application of the author's own, and the limits and sessions of its server."""

import asyncio
import contextlib

import httpx
import pytest
import uvloop
from fastapi import FastAPI

from openenv.core import EnvClient
from openenv.core.env_server.exceptions import ConcurrencyConfigurationError
from openenv.core.env_server.http_server import HTTPEnvServer, create_app
from openenv.core.env_server.types import ConcurrencyConfig
from openenv.hosting.serving.server import serve, server
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment, CountObservation, CountState


class Lonely(CountingEnvironment):
    SUPPORTS_CONCURRENT_SESSIONS = False


def test_an_application_serves_an_environment_beside_its_own_routes(serving):
    began, server = [], HTTPEnvServer(CountingEnvironment, CountAction, CountObservation, 3, state_cls=CountState)

    @contextlib.asynccontextmanager
    async def lifespan(_):
        began.append(True)
        yield

    app = FastAPI(lifespan=lifespan)
    app.get("/mine")(lambda: "mine")
    server.register_routes(app)
    url = serving(app)

    assert began == [True]
    assert httpx.get(f"{url}/mine").json() == "mine"
    with CountEnv(url) as env:
        env.reset()
        env.step(CountAction(amount=2))
        info = server.get_session_info(env.session_id)
        assert (info.step_count, info.environment_type) == (1, "CountingEnvironment")
        assert info.created_at <= info.last_activity_at
        assert server.get_capacity_status().available_slots == 2
    assert server.get_session_info("unknown") is None


@pytest.mark.parametrize("loop_factory", [asyncio.new_event_loop, uvloop.new_event_loop])
def test_a_server_runs_in_an_existing_event_loop_and_leaves_no_task_behind(loop_factory):
    async def serve_and_play():
        embedded = server(create_app(CountingEnvironment), "127.0.0.1", 0)
        serving = asyncio.create_task(embedded.serve())
        while not embedded.started:  # noqa: ASYNC110  uvicorn sets no event
            await asyncio.sleep(0.01)
        port = embedded.servers[0].sockets[0].getsockname()[1]
        async with CountEnv(f"http://127.0.0.1:{port}") as env:
            await env.reset()
            assert (await env.step(CountAction(amount=2))).observation.total == 2
        embedded.should_exit = True
        await serving
        return asyncio.all_tasks() - {asyncio.current_task()}

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        assert runner.run(serve_and_play()) == set()


def test_a_server_knows_its_limits_before_it_runs():
    server = HTTPEnvServer(CountingEnvironment, concurrency_config=ConcurrencyConfig(max_concurrent_envs=5))
    assert (server.active_sessions, server.max_concurrent_envs, server.is_concurrency_safe) == (0, 5, True)
    assert server.concurrency_config.max_concurrent_envs == 5


def test_more_sessions_than_the_environment_allows_are_refused_at_once():
    with pytest.raises(ConcurrencyConfigurationError, match=r"max_concurrent_envs=4: Lonely declares"):
        create_app(Lonely, max_concurrent_envs=4)
    assert HTTPEnvServer(Lonely).max_concurrent_envs == 1


class Affine(CountingEnvironment):
    """Counts the threads that its instances run in."""

    REQUIRES_SINGLE_THREAD_EXECUTOR = True
    threads: set[int] = set()  # noqa: RUF012  shared on purpose

    def __init__(self):
        super().__init__()
        self._note()

    def step(self, action, timeout_s=None, **kwargs):
        self._note()
        return super().step(action, timeout_s, **kwargs)

    def _note(self):
        import threading

        self.threads.add(threading.get_ident())


def test_sessions_of_a_single_threaded_library_share_one_thread(serving):
    url = serving(create_app(Affine))
    with CountEnv(url) as first, CountEnv(url) as second:
        for env in (first, second):
            env.reset()
            env.step(CountAction(amount=1))
    assert len(Affine.threads) == 1


class Derived(CountingEnvironment):
    """A base class with both kinds of step, of which a subclass writes the plain one."""

    async def step_async(self, action, timeout_s=None, **kwargs):
        return self.step(action, timeout_s)


class PlainStep(Derived):
    def step(self, action, timeout_s=None, **kwargs):
        observation = super().step(action, timeout_s)
        observation.payload = "mine"
        return observation


class AsyncStep(PlainStep):
    async def step_async(self, action, timeout_s=None, **kwargs):
        observation = await super().step_async(action, timeout_s)
        observation.payload = "asynchronous"
        return observation


@pytest.mark.parametrize(("env_cls", "expected"), [(PlainStep, "mine"), (AsyncStep, "asynchronous")])
def test_the_step_that_was_written_last_is_the_one_that_runs(serving, env_cls, expected):
    client: type[EnvClient] = CountEnv
    with client(serving(create_app(env_cls, CountAction, CountObservation))) as env:
        env.reset()
        assert env.step(CountAction(amount=1)).observation.payload == expected


@pytest.mark.parametrize("workers", [1, 2])
async def test_serve_names_the_remedy_where_an_event_loop_runs(workers):
    with pytest.raises(ValueError, match=r"await server\(app, host, port\)\.serve\(\)"):
        serve(CountingEnvironment, workers=workers)
