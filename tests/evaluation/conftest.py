"""One real OpenSpiel server for these tests."""

from collections.abc import Iterator

import pytest

from openenv.hosting.local_process import LocalServer


@pytest.fixture(scope="session")
def openspiel_url() -> Iterator[str]:
    """Base URL of a server in a process of its own, which plays catch by default."""
    with LocalServer("openenv.envs.openspiel_env.server.app", ["--game", "catch"]) as server:
        yield server.base_url
