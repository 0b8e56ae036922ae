"""A client of the same user on the same machine reaches a server through a Unix socket beside its port."""

import gc
import os
import socket
import stat
import subprocess
import time

import pytest

from openenv.core.containers.local_process import LocalServer
from openenv.core.env_server import create_app
from openenv.core.local_socket import LocalListener, connected_beside
from tests.core.counting_env import CountAction, CountEnv, CountingEnvironment

pytestmark = pytest.mark.usefixtures("socket_folder")


@pytest.fixture
def listener():
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield listening


def port_of(url):
    return int(url.rsplit(":", 1)[1])


@pytest.fixture
def url(serving):
    return until_beside(serving(create_app(CountingEnvironment)))


def until_beside(url):
    """A server listens beside its port a moment later than there."""
    while (connection := connected_beside("127.0.0.1", port_of(url))) is None:
        time.sleep(0.01)
    connection.close()
    return url


def family_of(env):
    with socket.socket(fileno=os.dup(env._blocking._connection.fileno())) as connection:
        return connection.family


def test_a_client_takes_the_short_way_and_sees_no_difference(url, socket_folder):
    for base_url in (url, url.replace("127.0.0.1", "localhost")):
        with CountEnv(base_url) as env:
            env.reset()
            assert env.step(CountAction(amount=2)).observation.total == 2
            assert family_of(env) is socket.AF_UNIX
    assert stat.S_IMODE(socket_folder.stat().st_mode) == 0o700


def test_an_application_sees_the_addresses_that_it_would_see_at_the_port(serving):
    seen = []

    class Noting:
        def __init__(self, app):
            self.app = app

        async def __call__(self, scope, receive, send):
            if scope["type"] == "websocket":
                seen.append((scope["client"][0], scope["server"][0], scope["server"][1]))
            await self.app(scope, receive, send)

    app = create_app(CountingEnvironment)
    app.add_middleware(Noting)
    port = port_of(until_beside(serving(app)))
    for host in ("127.0.0.1", "localhost"):
        with CountEnv(f"http://{host}:{port}") as env:
            assert family_of(env) is socket.AF_UNIX
    assert seen == [("127.0.0.1", "127.0.0.1", port)] * 2


async def test_so_does_an_asynchronous_one(url):
    async with CountEnv(url) as env:
        await env.reset()
        family = env._async._connection._transport.get_extra_info("socket").family
    assert family is socket.AF_UNIX


@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_a_request_that_cannot_be_written_leaves_no_socket_open(url, mode, recwarn):
    env = CountEnv(url, headers={"X-Name": "one\nX-Other: two"})
    with pytest.raises(ValueError, match="line break"):
        await env.__aenter__() if mode == "async" else env.__enter__()
    gc.collect()
    assert not [warning for warning in recwarn if warning.category is ResourceWarning]


def test_without_a_socket_the_port_is_used(url, socket_folder):
    for path in socket_folder.iterdir():
        path.unlink()
    with CountEnv(url) as env:
        env.reset()
        assert family_of(env) is socket.AF_INET


def test_another_address_of_this_machine_means_the_port(url):
    assert connected_beside("127.0.0.2", port_of(url)) is None
    with socket.create_server(("127.0.0.2", 0)) as listening:
        assert LocalListener.beside(listening) is None


def test_a_server_that_stops_leaves_nothing_behind(socket_folder, listener):
    beside = LocalListener.beside(listener)
    assert beside is not None
    assert [path.name.endswith(f"-127.0.0.1-{listener.getsockname()[1]}.sock") for path in socket_folder.iterdir()] == [
        True
    ]
    beside.remove()
    assert list(socket_folder.iterdir()) == []


def test_the_place_of_a_server_that_was_killed_is_taken_and_that_of_one_that_lives_is_not(listener):
    port = listener.getsockname()[1]
    first = LocalListener.beside(listener)
    assert LocalListener.beside(listener) is None
    first.socket.close()  # as if its process had been killed
    assert connected_beside("127.0.0.1", port) is None
    second = LocalListener.beside(listener)
    connected_beside("127.0.0.1", port).close()
    second.remove()


def test_what_killed_servers_left_behind_is_swept_away(socket_folder, listener):
    with socket.create_server(("127.0.0.1", 0)) as other, socket.create_server(("127.0.0.1", 0)) as third:
        dead, living = LocalListener.beside(other), LocalListener.beside(third)
        dead.socket.close()
        new = LocalListener.beside(listener)
        assert len(list(socket_folder.iterdir())) == 2
        connected_beside("127.0.0.1", third.getsockname()[1]).close()
    living.remove(), new.remove()


def test_what_servers_left_behind_that_were_killed_as_they_began_is_swept_away_too(socket_folder, listener):
    ended = subprocess.Popen(["true"])
    ended.wait()
    place = LocalListener.beside(listener)
    names = [f"{sorted(socket_folder.iterdir())[0].name}.{suffix}" for suffix in (ended.pid, os.getpid(), "kept")]
    for name in names:
        with socket.socket(socket.AF_UNIX) as begun:
            begun.bind(str(socket_folder / name))  # and did not come to listen
    with socket.create_server(("127.0.0.1", 0)) as another:
        second = LocalListener.beside(another)
        left = {path.name for path in socket_folder.iterdir()} & set(names)
        second.remove()
    place.remove()
    assert left == set(names[1:])


@pytest.mark.parametrize("mode", [0o750, 0o701])
def test_a_folder_that_others_may_enter_is_used_by_neither_side(socket_folder, listener, mode):
    socket_folder.mkdir()
    socket_folder.chmod(mode)
    assert LocalListener.beside(listener) is None
    socket_folder.chmod(0o700)
    beside = LocalListener.beside(listener)
    socket_folder.chmod(mode)
    assert connected_beside("127.0.0.1", listener.getsockname()[1]) is None
    beside.remove()


def test_a_link_in_its_place_is_used_by_neither_side(socket_folder, listener):
    elsewhere = socket_folder.parent / "elsewhere"
    elsewhere.mkdir(mode=0o700)
    socket_folder.symlink_to(elsewhere)
    assert LocalListener.beside(listener) is None


def test_workers_share_the_socket(socket_folder):
    with LocalServer(
        "tests.core.counting_env", ["--workers", "2"], env_vars={"TMPDIR": str(socket_folder.parent)}
    ) as server:
        url = server.base_url
        with CountEnv(url) as one, CountEnv(url) as other:
            assert {one.session_id[:2], other.session_id[:2]} == {"w0", "w1"}
            assert family_of(one) is family_of(other) is socket.AF_UNIX
    assert list(socket_folder.iterdir()) == []
