"""One OpenSpiel server for the tests of this folder; each reset names its game."""

from collections.abc import Iterator

import pytest

from openenv.hosting.local_process import LocalServer

SERVER_MODULE = "openenv.envs.openspiel_env.server.app"


@pytest.fixture(scope="session")
def openspiel_url() -> Iterator[str]:
    """Base URL of a server in another process, which plays catch by default."""
    with LocalServer(SERVER_MODULE, ["--game", "catch"]) as server:
        yield server.base_url
