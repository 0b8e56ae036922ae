"""A server on a Unix socket: the same sessions, without a port."""

import contextlib
import os
import socket
import stat
import threading

import pytest

from openenv import ServerConfig, create_app, serve
from openenv.core.errors import ServerUnreachable
from openenv.core.http_env_client import HTTPEnvClient
from openenv.hosting.serving.listeners import open_unix_listener
from openenv.hosting.serving.server import server
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment, CountObservation, CountState
from tests.core.env_server.probes import wait_until


class CountHttpEnv(HTTPEnvClient[CountAction, CountObservation, CountState]):
    """The counter over plain HTTP."""


@contextlib.contextmanager
def served(folder):
    app = create_app(CountingEnvironment, config=ServerConfig(max_sessions=4))
    running = server(app, f"unix:{folder}/counter.sock", 0)
    thread = threading.Thread(target=running.run, daemon=True)
    thread.start()
    try:
        wait_until(lambda: running.started)
        yield f"unix:{folder}/counter.sock"
    finally:
        running.should_exit = True
        thread.join(10)


@pytest.fixture
def base_url(tmp_path):
    with served(tmp_path) as url:
        yield url


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


@pytest.mark.parametrize(
    ("folder_mode", "mode"), [(0o755, 0o600), (0o1777, 0o600), (0o775, 0o660), (0o777, 0o666), (0o700, 0o600)]
)
def test_another_user_connects_only_where_it_could_replace_the_socket(tmp_path, folder_mode, mode):
    tmp_path.chmod(folder_mode)
    before = os.umask(0o027)  # of the program: it neither opens nor closes the socket
    try:
        with served(tmp_path) as url, CountEnv(url) as env:
            assert env.reset().observation.total == 0
            assert stat.S_IMODE((tmp_path / "counter.sock").stat().st_mode) == mode
    finally:
        os.umask(before)


def test_the_socket_of_a_server_that_was_killed_is_replaced_and_another_file_is_not(tmp_path):
    left, file = tmp_path / "left.sock", tmp_path / "file"
    with socket.socket(socket.AF_UNIX) as killed:
        killed.bind(str(left))
    file.touch()

    open_unix_listener(str(left)).close()

    with pytest.raises(OSError, match=f"cannot listen on unix:{file}.*Give another path"):
        open_unix_listener(str(file))
    with pytest.raises(OSError, match="cannot listen on unix:/missing/a"):
        open_unix_listener("/missing/a")
    assert file.is_file()
