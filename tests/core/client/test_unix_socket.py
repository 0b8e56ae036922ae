"""A server on a Unix socket: the same sessions, without a port."""

import threading

import pytest

from openenv.core.env_server import ServerConfig, create_app, serve
from openenv.core.env_server.http_server import server
from openenv.core.errors import ServerUnreachable
from openenv.core.http_env_client import HTTPEnvClient
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment, CountObservation, CountState
from tests.core.env_server.probes import wait_until


class CountHttpEnv(HTTPEnvClient[CountAction, CountObservation, CountState]):
    """The counter over plain HTTP."""


@pytest.fixture
def base_url(tmp_path):
    app = create_app(CountingEnvironment, config=ServerConfig(max_sessions=4))
    running = server(app, f"unix:{tmp_path}/counter.sock", 0)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    wait_until(lambda: running.started)
    yield f"unix:{tmp_path}/counter.sock"
    running.should_exit = True
    thread.join(10)


@pytest.mark.parametrize("client", [CountEnv, CountHttpEnv])
def test_a_client_plays_over_it(base_url, client):
    with client(base_url) as env:
        env.reset(start=2)
        assert env.step(CountAction(amount=3)).observation.total == 5


@pytest.mark.parametrize("client", [CountEnv, CountHttpEnv])
async def test_an_asynchronous_client_does_too(base_url, client):
    async with client(base_url) as env:
        await env.reset(start=2)
        assert (await env.step(CountAction(amount=3))).observation.total == 5


def test_a_vector_does_too(base_url):
    with CountEnv(base_url).vector(3) as envs:
        assert envs.reset(seed=1)[0]["total"].tolist() == [0, 0, 0]


def test_a_socket_that_is_not_there_is_named(tmp_path):
    with pytest.raises(ServerUnreachable, match=r"no environment answers at unix:.*missing\.sock"):
        CountEnv(f"unix:{tmp_path}/missing.sock").reset()


def test_a_relative_path_is_refused_at_once():
    with pytest.raises(ValueError, match="give the socket's whole path"):
        CountEnv("unix:counter.sock")


def test_several_workers_need_a_port(tmp_path):
    with pytest.raises(ValueError, match="several workers share a port"):
        serve("tests.core.counting_env:app", f"unix:{tmp_path}/counter.sock", workers=2)
