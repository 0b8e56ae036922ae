"""One real OpenSpiel server for the tests of this folder; each reset names the game it wants."""

from collections.abc import Iterator

import pytest

from openenv.core.containers.local_process import LocalServer

SERVER_MODULE = "openenv.envs.openspiel_env.server.app"


@pytest.fixture(scope="session")
def openspiel_url() -> Iterator[str]:
    """Base URL of a server in a process of its own, playing catch unless told otherwise."""
    with LocalServer(SERVER_MODULE, ["--game", "catch"]) as server:
        yield server.base_url
