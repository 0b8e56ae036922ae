"""One OpenSpiel server and free ports for the commands."""

import socket

import pytest

from openenv.hosting.local_process import LocalServer


@pytest.fixture(scope="module")
def openspiel_url():
    """Base URL of a server in another process, which plays catch by default."""
    with LocalServer("openenv.envs.openspiel_env.server.app", ["--game", "catch"]) as server:
        yield server.base_url


@pytest.fixture
def port():
    """A free port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]
